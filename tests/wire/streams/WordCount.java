import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words, each line exactly once: BOOTSTRAP APPLICATION_ID GROUP_PROTOCOL STATE_DIR INPUT OUTPUT. It prints its
 * states and its number of tasks, and exits when its standard input is closed.
 */
public class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put("group.protocol", arguments[2]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        if (arguments[2].equals("streams")) {
            // Members of streams groups get both values from the broker.
            settings.remove(StreamsConfig.consumerPrefix("session.timeout.ms"));
            settings.remove(StreamsConfig.consumerPrefix("heartbeat.interval.ms"));
        }
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(arguments[4]);
        lines.flatMapValues(line -> List.of(line.toLowerCase(Locale.ROOT).split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .to(arguments[5], Produced.with(Serdes.String(), Serdes.Long()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            System.out.flush();
        });
        streams.start();
        Thread watch = new Thread(() -> tellTasks(streams));
        watch.setDaemon(true);
        watch.start();
        while (System.in.read() != -1) {
        }
        streams.close(Duration.ofSeconds(30));
        System.out.println("closed");
    }

    static void tellTasks(KafkaStreams streams) {
        int told = 0;
        while (true) {
            int count = streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.activeTasks().size()).sum();
            if (count != told) {
                System.out.println("tasks " + count);
                System.out.flush();
                told = count;
            }
            try {
                Thread.sleep(50);
            } catch (InterruptedException ended) {
                return;
            }
        }
    }
}
