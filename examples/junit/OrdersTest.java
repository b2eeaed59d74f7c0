import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
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
        assertEquals(List.of("paid"), committed(bootstrap, 1));
    }

    @Test
    void producerSurvivesALeaderChangeAndALostResponse(@OttlaExtension.Ottla OttlaExtension.Broker broker) {
        var produce = OttlaExtension.Fault.on("Produce").topic("orders").times(2);
        var moved = broker.faults().error("NOT_LEADER_OR_FOLLOWER", produce);
        var lost = broker.faults().cut("after", OttlaExtension.Fault.on("Produce").topic("orders"));
        broker.faults().delay(Duration.ofMillis(50), OttlaExtension.Fault.on("Fetch").always());
        try (var producer = producer(broker.bootstrap(), Map.of())) {
            send(producer, "paid");
        }
        moved.await(2);
        lost.await(1);
        assertEquals(List.of("paid"), committed(broker.bootstrap(), 1));
    }

    @Test
    void transactionTimesOutWhenTheClockIsAdvanced(@OttlaExtension.Ottla({"--clock", "manual"}) OttlaExtension.Broker broker) {
        var settings = Map.<String, Object>of("transactional.id", "slow", "transaction.timeout.ms", 30_000);
        try (var producer = producer(broker.bootstrap(), settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, "late");
            broker.clock().advance(Duration.ofSeconds(61));
            assertThrows(KafkaException.class, producer::commitTransaction);
        }
    }

    @Test
    void resetRemovesWhatWasWritten(@OttlaExtension.Ottla OttlaExtension.Broker broker) {
        for (String value : List.of("first", "second")) {
            broker.reset();
            try (var producer = producer(broker.bootstrap(), Map.of())) {
                send(producer, value);
            }
            assertEquals(List.of(value), committed(broker.bootstrap(), 1));
        }
    }

    @Test
    void producerFollowsTheLeader(@OttlaExtension.Ottla OttlaExtension.Cluster cluster) {
        cluster.command("topic", "create", "orders", "--partitions", "1", "--replication-factor", "3");
        try (var producer = producer(cluster.bootstrap(), Map.of())) {
            send(producer, "before");
            int next = cluster.leader("orders", 0) % 3 + 1;
            cluster.moveLeader("orders", 0, next);
            send(producer, "moved");
            cluster.kill(next);
            send(producer, "killed");
            cluster.restart(next);
        }
        assertEquals(List.of("before", "moved", "killed"), committed(cluster.bootstrap(), 3));
    }

    /** This test fails, to show its report. */
    @Test
    @EnabledIfEnvironmentVariable(named = "OTTLA_SHOW_FAILURE", matches = ".+")
    void reportOfAFailedTest(@OttlaExtension.Ottla OttlaExtension.Broker broker) {
        try (var producer = producer(broker.bootstrap(), Map.of("transactional.id", "checkout-1"))) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, "paid");
            producer.commitTransaction();
        }
        assertEquals(List.of("shipped"), committed(broker.bootstrap(), 1));
    }

    private static KafkaProducer<String, String> producer(String bootstrap, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static void send(KafkaProducer<String, String> producer, String value) {
        assertDoesNotThrow(() -> producer.send(new ProducerRecord<>("orders", value)).get());
    }

    private static List<String> committed(String bootstrap, int count) {
        Map<String, Object> consuming = Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", "readers",
            "auto.offset.reset", "earliest",
            "isolation.level", "read_committed");
        List<String> values = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (values.size() < count && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }
}
