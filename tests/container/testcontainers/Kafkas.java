import java.util.List;
import java.util.function.Supplier;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** Starts the Kafka containers on the given image in turn, prints their addresses, and stops each when a line is read. */
@SuppressWarnings("deprecation")
public final class Kafkas {
    private static DockerImageName as(String image, String kafka) {
        return DockerImageName.parse(image).asCompatibleSubstituteFor(kafka);
    }

    private static void start(String name, GenericContainer<?> container, Supplier<String> bootstrap) throws Exception {
        container.start();
        System.out.println(name + " " + bootstrap.get().replace("PLAINTEXT://", ""));
        while (System.in.read() != '\n') {
        }
        container.stop();
    }

    public static void main(String[] arguments) throws Exception {
        String image = arguments[0];
        KafkaContainer apache = new KafkaContainer(as(image, "apache/kafka"));
        start("apache", apache, apache::getBootstrapServers);
        ConfluentKafkaContainer confluent = new ConfluentKafkaContainer(as(image, "confluentinc/cp-kafka"));
        start("confluent", confluent, confluent::getBootstrapServers);
        for (boolean kraft : List.of(true, false)) {
            org.testcontainers.containers.KafkaContainer older =
                new org.testcontainers.containers.KafkaContainer(as(image, "confluentinc/cp-kafka"));
            if (kraft) {
                older.withKraft();
            }
            start(kraft ? "older-kraft" : "older-zookeeper", older, older::getBootstrapServers);
        }
    }
}
