import java.io.IOException;
import java.io.OutputStream;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies records exactly once: BOOTSTRAP GROUP_PROTOCOL GROUP TRANSACTIONAL_ID INPUT OUTPUT. It prints errors, and
 * exits when its standard input is closed.
 */
public class Pipe {
    static final int RECORDS = 20;
    static final int PAUSE_MS = 20;
    static final String TRANSACTION_TIMEOUT_MS = "4000";

    final String[] arguments;
    final KafkaConsumer<byte[], byte[]> consumer;
    KafkaProducer<byte[], byte[]> producer;

    Pipe(String[] arguments) {
        this.arguments = arguments;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.protocol", arguments[1]);
        if (arguments[1].equals("classic")) {
            settings.put("session.timeout.ms", "3000");
            settings.put("heartbeat.interval.ms", "300");
        }
        settings.put("group.id", arguments[2]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", Integer.toString(RECORDS));
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        producer = initialised();
    }

    KafkaProducer<byte[], byte[]> initialised() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[3]);
        settings.put("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS);
        KafkaProducer<byte[], byte[]> made = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        made.initTransactions();
        return made;
    }

    static void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    static void readToTheEnd() {
        try {
            System.in.transferTo(OutputStream.nullOutputStream());
        } catch (IOException ended) {
            // The process that started this one has ended.
        }
    }

    void subscribe() {
        // With a listener, a removed member rejoins only in poll(), and so never while a transaction is open.
        consumer.subscribe(Set.of(arguments[4]), new ConsumerRebalanceListener() {
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            }

            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            }

            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                say("lost " + partitions.size());
            }
        });
    }

    void copy(ConsumerRecords<byte[], byte[]> records, ConsumerGroupMetadata member) throws InterruptedException {
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(arguments[5], record.partition(), record.key(), record.value()));
            next.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.flush();
        Thread.sleep(PAUSE_MS);
        producer.sendOffsetsToTransaction(next, member);
        producer.commitTransaction();
    }

    void startOver(KafkaException failure) {
        say("failed " + failure);
        try {
            producer.abortTransaction();
        } catch (KafkaException fatal) {
            producer.close(Duration.ZERO);
            producer = initialised();
        }
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(partition);
            if (offset == null) {
                consumer.seekToBeginning(Set.of(partition));
            } else {
                consumer.seek(partition, offset);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread input = new Thread(Pipe::readToTheEnd);
        input.start();
        Pipe pipe = new Pipe(arguments);
        pipe.subscribe();
        while (input.isAlive()) {
            ConsumerRecords<byte[], byte[]> records = pipe.consumer.poll(Duration.ofMillis(100));
            if (records.isEmpty()) {
                continue;
            }
            try {
                pipe.copy(records, pipe.consumer.groupMetadata());
            } catch (KafkaException failure) {
                pipe.startOver(failure);
            }
        }
        pipe.consumer.close();
        pipe.producer.close();
        say("closed");
    }
}
