import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(OttlaExtension.class)
final class OrdersTest {
    @Test
    void onlyCommittedOrdersAreRead(@OttlaExtension.Ottla String bootstrap) {
        Map<String, Object> producing = Map.of("bootstrap.servers", bootstrap, "transactional.id", "orders");
        try (var producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "cancelled"));
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "paid"));
            producer.commitTransaction();
        }
        assertEquals(List.of("paid"), committed(bootstrap));
    }

    private static List<String> committed(String bootstrap) {
        Map<String, Object> consuming = Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", "readers",
            "auto.offset.reset", "earliest",
            "isolation.level", "read_committed");
        List<String> values = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            long deadline = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (values.isEmpty() && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }
}
