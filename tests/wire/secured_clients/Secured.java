import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Commits a transaction and reads it in a group: the argument is the file of client_properties(). With a further argument "lines" it
 * sends each line of its input as a record, and prints the line when the broker has acknowledged the record.
 */
public final class Secured {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.load(Files.newBufferedReader(Path.of(arguments[0])));
        if (arguments.length > 1) {
            sendLines(settings);
            return;
        }
        settings.put("transactional.id", "checkout-1");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "paid"));
            producer.commitTransaction();
        }
        settings.put("group.id", "billing");
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("group.protocol", "consumer");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            for (boolean isRead = false; !isRead; ) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.value());
                    isRead = true;
                }
            }
            consumer.commitSync();
        }
    }

    private static void sendLines(Properties settings) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in));
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                producer.send(new ProducerRecord<>("orders", line)).get();
                System.out.println(line);
            }
        }
    }
}
