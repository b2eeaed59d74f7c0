import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producers that commit small transactions for some seconds: prints transactions, seconds, commit p50 and p99 in ms. */
public class TransactionBench {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String topic = args[1];
        int producers = Integer.parseInt(args[2]);
        long warmUpMs = Long.parseLong(args[3]);
        long runMs = Long.parseLong(args[4]);
        Properties config = new Properties();
        if (args.length > 5) {
            try (var reader = java.nio.file.Files.newBufferedReader(java.nio.file.Path.of(args[5]))) {
                config.load(reader);
            }
        }
        ConcurrentLinkedQueue<Long> commitNanos = new ConcurrentLinkedQueue<>();
        AtomicLong count = new AtomicLong();
        AtomicLong started = new AtomicLong();
        CountDownLatch ready = new CountDownLatch(producers);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < producers; i++) {
            final int number = i;
            Thread thread = new Thread(() -> {
                Properties p = new Properties();
                p.putAll(config);
                p.put("bootstrap.servers", bootstrap);
                p.put("transactional.id", topic + "-bench-" + number);
                p.put("linger.ms", "0");
                p.put("key.serializer", ByteArraySerializer.class.getName());
                p.put("value.serializer", ByteArraySerializer.class.getName());
                byte[] value = new byte[100];
                try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p)) {
                    producer.initTransactions();
                    ready.countDown();
                    ready.await();
                    started.compareAndSet(0, System.nanoTime());
                    long begin = started.get() + warmUpMs * 1_000_000;
                    long end = begin + runMs * 1_000_000;
                    while (System.nanoTime() < end) {
                        producer.beginTransaction();
                        for (int n = 0; n < 2; n++) {
                            producer.send(new ProducerRecord<>(topic, n, null, value));
                        }
                        producer.flush();
                        long before = System.nanoTime();
                        producer.commitTransaction();
                        long after = System.nanoTime();
                        if (before >= begin && after < end) {
                            commitNanos.add(after - before);
                            count.incrementAndGet();
                        }
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
        List<Long> sorted = new ArrayList<>(commitNanos);
        Collections.sort(sorted);
        if (sorted.isEmpty()) sorted.add(0L);
        double p50 = sorted.get(sorted.size() / 2) / 1e6;
        double p99 = sorted.get((int) (sorted.size() * 0.99)) / 1e6;
        System.out.printf(Locale.ROOT, "RESULT %d %.3f %.3f %.3f%n", count.get(), runMs / 1000.0, p50, p99);
    }
}
