import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group. Its arguments are BOOTSTRAP GROUP TOPIC SEED LOCK_MS. It ends when its standard input ends. It writes
 * a line for each event, with times from the system's monotonic clock in nanoseconds:
 *
 * got SINCE NOW PARTITION OFFSET COUNT VALUE: a record was delivered by a fetch that was sent after SINCE.
 * want NOW PARTITION OFFSET COUNT TYPE: the member is about to acknowledge a record.
 * done NOW PARTITION OFFSET COUNT TYPE: an acknowledgement was answered without an error.
 * refused NOW PARTITION OFFSET COUNT TYPE ERROR: an acknowledgement was answered with an error.
 * trouble NOW ERROR: a call of the client has thrown an exception.
 */
public class Member {
    /** Records whose values have this prefix are never accepted, so that they reach the delivery limit. */
    private static final String POISON = "poison";
    private static final int BUFFERED_POLLS = 3;
    private static final int RENEWALS = 3;

    private record Held(int partition, long offset, int count, AcknowledgeType type) {
        String text() {
            return partition + " " + offset + " " + count + " " + type.name();
        }

        List<Long> place() {
            return List.of((long) partition, offset);
        }

        List<Long> delivery() {
            return List.of((long) partition, offset, (long) count);
        }
    }

    private static List<Long> delivery(ConsumerRecord<String, String> record) {
        return List.of((long) record.partition(), record.offset(), (long) record.deliveryCount().get());
    }

    private final Random random;
    private final long lockMs;
    private final KafkaShareConsumer<String, String> consumer;
    private final StringBuilder lines = new StringBuilder();
    private final List<Long> polls = new ArrayList<>();
    /** Acknowledgements that are sent with the next fetch, by partition and offset. */
    private final Map<List<Long>, Held> underWay = new HashMap<>();
    /** Number of lock renewals of a delivery. After a renewal, the consumer returns the record again with the next poll. */
    private final Map<List<Long>, Integer> renewed = new HashMap<>();

    Member(String[] arguments) {
        random = new Random(arguments[3].hashCode());
        lockMs = Long.parseLong(arguments[4]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("share.acquire.mode", random.nextBoolean() ? "batch_optimized" : "record_limit");
        settings.put("max.poll.records", 50);
        settings.put("reconnect.backoff.max.ms", 300);
        settings.put("default.api.timeout.ms", 10_000);
        settings.put("request.timeout.ms", 5_000);
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        consumer = new KafkaShareConsumer<>(settings);
        consumer.setAcknowledgementCommitCallback(this::answered);
        consumer.subscribe(List.of(arguments[2]));
    }

    public static void main(String[] arguments) throws Exception {
        Member member = new Member(arguments);
        while (System.in.available() == 0) {
            try {
                member.share();
            } catch (Exception error) {
                member.line("trouble " + System.nanoTime() + " " + String.valueOf(error).replace('\n', ' '));
                member.releaseAll();
                Thread.sleep(100);
            }
            member.flush();
        }
        member.consumer.close(Duration.ofSeconds(10));
        member.flush();
    }

    private void line(String text) {
        lines.append(text).append('\n');
    }

    private void flush() {
        System.out.print(lines);
        System.out.flush();
        lines.setLength(0);
    }

    private long since() {
        polls.add(System.nanoTime());
        if (polls.size() > BUFFERED_POLLS) {
            polls.remove(0);
        }
        return polls.get(0);
    }

    private void share() throws InterruptedException {
        long since = since();
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        consumer.poll(Duration.ofMillis(200)).forEach(records::add);
        if (records.isEmpty()) {
            return;
        }
        long now = System.nanoTime();
        Set<List<Long>> again = new HashSet<>();
        for (ConsumerRecord<String, String> record : records) {
            List<Long> delivery = delivery(record);
            if (renewed.containsKey(delivery)) {
                again.add(delivery);
            } else {
                line("got " + since + " " + now + " " + record.partition() + " " + record.offset() + " " + record.deliveryCount().get()
                    + " " + record.value());
            }
        }
        flush();
        if (random.nextInt(40) == 0) {
            Thread.sleep(lockMs * 3 / 2);
        }
        boolean renews = random.nextInt(4) == 0;
        Map<List<Long>, Held> held = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            AcknowledgeType type = chosen(record, renews);
            Held one = new Held(record.partition(), record.offset(), record.deliveryCount().get(), type);
            if (type == AcknowledgeType.RENEW) {
                renewed.merge(one.delivery(), 1, Integer::sum);
            } else {
                renewed.remove(one.delivery());
            }
            line("want " + System.nanoTime() + " " + one.text());
            held.put(one.place(), one);
            consumer.acknowledge(record, type);
        }
        flush();
        if (random.nextInt(3) == 0 && !renews && again.isEmpty()) {
            underWay.putAll(held);
        } else {
            settle(held);
        }
        Thread.sleep(renews || !again.isEmpty() ? lockMs / 2 : random.nextInt(20));
    }

    private AcknowledgeType chosen(ConsumerRecord<String, String> record, boolean renews) {
        if (record.value().startsWith(POISON)) {
            return AcknowledgeType.RELEASE;
        }
        int renewals = renewed.getOrDefault(delivery(record), 0);
        if (renewals > 0 && renewals < RENEWALS && random.nextInt(3) > 0 || renews && renewals == 0 && random.nextInt(5) == 0) {
            return AcknowledgeType.RENEW;
        }
        int dice = random.nextInt(100);
        return dice < 15 ? AcknowledgeType.RELEASE : dice < 20 ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
    }

    private void settle(Map<List<Long>, Held> held) {
        Map<TopicIdPartition, Optional<KafkaException>> outcomes = consumer.commitSync();
        for (Held one : held.values()) {
            outcomes.forEach((partition, error) -> {
                if (partition.partition() == one.partition()) {
                    told(one, error.orElse(null));
                }
            });
        }
    }

    /** Callback for acknowledgements. Acknowledgements that `settle` has sent have no entry in `underWay`. */
    private void answered(Map<TopicIdPartition, Set<Long>> offsets, Exception error) {
        offsets.forEach((partition, acknowledged) -> acknowledged.forEach(offset -> {
            Held one = underWay.remove(List.of((long) partition.partition(), offset));
            if (one != null) {
                told(one, error);
            }
        }));
    }

    private void told(Held one, Exception error) {
        if (error == null) {
            line("done " + System.nanoTime() + " " + one.text());
        } else {
            renewed.remove(one.delivery());
            line("refused " + System.nanoTime() + " " + one.text() + " " + error.getClass().getSimpleName());
        }
    }

    /** After an error, records of the last poll may lack an acknowledgement, and the next poll requires one for each record. */
    private void releaseAll() {
        renewed.clear();
        try {
            consumer.commitSync();
        } catch (Exception error) {
            line("trouble " + System.nanoTime() + " " + String.valueOf(error).replace('\n', ' '));
        }
    }
}
