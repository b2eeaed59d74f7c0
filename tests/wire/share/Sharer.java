import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group: BOOTSTRAP GROUP TOPIC. It prints "got PARTITION OFFSET COUNT VALUE" for each delivery, and "done PARTITION
 * OFFSET" for each record whose acknowledgement (accept) succeeded. It releases every 50th record at its first delivery, and exits when
 * its standard input is closed.
 */
public class Sharer {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            while (System.in.available() == 0) {
                share(consumer);
            }
        }
        System.out.println("closed");
    }

    private static void share(KafkaShareConsumer<String, String> consumer) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return;
        }
        StringBuilder got = new StringBuilder();
        List<ConsumerRecord<String, String>> accepted = new ArrayList<>();
        for (ConsumerRecord<String, String> record : records) {
            int deliveries = record.deliveryCount().get();
            got.append("got ").append(record.partition()).append(' ').append(record.offset()).append(' ').append(deliveries)
                .append(' ').append(record.value()).append('\n');
            boolean releases = record.offset() % 50 == 0 && deliveries == 1;
            consumer.acknowledge(record, releases ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
            if (!releases) {
                accepted.add(record);
            }
        }
        System.out.print(got);
        System.out.flush();
        Map<TopicIdPartition, Optional<KafkaException>> outcomes = consumer.commitSync();
        StringBuilder done = new StringBuilder();
        for (ConsumerRecord<String, String> record : accepted) {
            for (Map.Entry<TopicIdPartition, Optional<KafkaException>> outcome : outcomes.entrySet()) {
                if (outcome.getKey().partition() == record.partition() && outcome.getValue().isEmpty()) {
                    done.append("done ").append(record.partition()).append(' ').append(record.offset()).append('\n');
                }
            }
        }
        System.out.print(done);
        System.out.flush();
        outcomes.forEach((partition, error) -> error.ifPresent(refusal -> System.out.println("refused " + partition + " " + refusal)));
    }
}
