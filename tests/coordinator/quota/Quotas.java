import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import kafka.network.ConnectionQuotas;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.ConnectionThrottledException;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ClientRequestQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;
import org.apache.kafka.server.quota.ThrottleCallback;
import scala.Option;

/**
 * Runs Kafka's quota managers on a clock that the input sets. Each line of the input is a JSON object with the kind of quota and steps;
 * each line of the output has the result of each step. The step "metrics" returns the metrics of clients. They have throttle times if the
 * input has "throttles": then each request is followed by ClientQuotaManager.throttle, and a throttled fetch is not counted, as in KafkaApis.
 */
public class Quotas {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String DEFAULT = "";
    private static final ListenerName LISTENER = new ListenerName("PLAINTEXT");
    private static final ThrottleCallback UNMUTED = new ThrottleCallback() {
        public void startThrottling() { }
        public void endThrottling() { }
    };

    private static final class SetTime implements Time {
        private long now;

        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public void sleep(long ms) { }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
        out.flush();
        System.exit(0);
    }

    private static ArrayNode answer(JsonNode question) throws Exception {
        SetTime time = new SetTime();
        Metrics metrics = new Metrics(new MetricConfig(), List.of(), time, false);
        if (question.get("kind").asText().equals("connections")) {
            return connections(question, time, metrics);
        }
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(question.get("samples").asInt(), question.get("window_s").asInt());
        ClientQuotaManager manager = switch (question.get("kind").asText()) {
            case "request" -> new ClientRequestQuotaManager(config, metrics, time, "", Optional.empty());
            case "mutation" -> new ControllerMutationQuotaManager(config, metrics, time, "", Optional.empty());
            case "fetch" -> new ClientQuotaManager(config, metrics, QuotaType.FETCH, time, "");
            default -> new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, time, "");
        };
        ArrayNode results = JSON.createArrayNode();
        for (JsonNode step : question.get("steps")) {
            time.now = step.get(1).asLong();
            if (step.get(0).asText().equals("metrics")) {
                addMetrics(results, metrics);
            } else {
                add(results, manager, step, time, question.path("throttles").asBoolean(),
                    question.get("kind").asText().equals("fetch"));
            }
        }
        manager.initiateShutdown();
        return results;
    }

    /** The quotas of addresses; SocketServer has one object for them. */
    private static ArrayNode connections(JsonNode question, SetTime time, Metrics metrics) throws Exception {
        Map<String, String> config = Map.of(
            "process.roles", "broker", "node.id", "1", "controller.quorum.voters", "2@localhost:1", "controller.listener.names", "CONTROLLER",
            "quota.window.num", question.get("samples").asText(), "quota.window.size.seconds", question.get("window_s").asText());
        ConnectionQuotas quotas = new ConnectionQuotas(new KafkaConfig(config), time, metrics);
        quotas.addListener(new KafkaConfig(config), LISTENER);
        ArrayNode results = JSON.createArrayNode();
        for (JsonNode step : question.get("steps")) {
            time.now = step.get(1).asLong();
            if (step.get(0).asText().equals("metrics")) {
                addMetrics(results, metrics);
                continue;
            }
            String name = step.get(2).asText();
            Option<InetAddress> address = Option.apply(name.equals(DEFAULT) ? null : InetAddress.getByName(name));
            if (step.get(0).asText().equals("set")) {
                quotas.updateIpConnectionRateQuota(address, Option.apply(step.get(4).isNull() ? null : (Object) step.get(4).asInt()));
                results.addNull();
                continue;
            }
            try {
                quotas.inc(LISTENER, address.get(), null);
                results.add(0);
            } catch (ConnectionThrottledException e) {
                results.add(e.throttleTimeMs);
            }
        }
        return results;
    }

    /** Adds the metrics of users, client ids and addresses as lists of group, name, values of the tags, and value. */
    private static void addMetrics(ArrayNode results, Metrics metrics) {
        ArrayNode found = results.addArray();
        for (KafkaMetric metric : metrics.metrics().values()) {
            Map<String, String> tags = metric.metricName().tags();
            if (tags.containsKey("user") || tags.containsKey("ip") || metric.metricName().name().startsWith("ip-")) {
                found.addArray().add(metric.metricName().group()).add(metric.metricName().name()).add(JSON.valueToTree(tags))
                    .add(((Number) metric.metricValue()).doubleValue());
            }
        }
    }

    private static void add(ArrayNode results, ClientQuotaManager manager, JsonNode step, SetTime time, boolean throttles, boolean fetches)
            throws Exception {
        if (step.get(0).asText().equals("set")) {
            Optional<Quota> quota = step.get(4).isNull() ? Optional.empty() : Optional.of(Quota.upperBound(step.get(4).asDouble()));
            manager.updateQuota(user(step.get(2)), clientId(step.get(3)), quota);
            results.addNull();
            return;
        }
        Session session = session(step.get(2).asText());
        String client = step.get(3).asText();
        switch (step.get(0).asText()) {
            case "record" -> {
                int throttleTimeMs = manager.maybeRecordAndGetThrottleTimeMs(session, client, step.get(4).asDouble(), time.now);
                if (throttles) {
                    if (throttleTimeMs > 0 && fetches) {
                        manager.unrecordQuotaSensor(session, client, step.get(4).asDouble(), time.now);
                    }
                    manager.throttle(client, session, UNMUTED, throttleTimeMs);
                }
                results.add(throttleTimeMs);
            }
            case "unrecord" -> {
                manager.unrecordQuotaSensor(session, client, step.get(4).asDouble(), time.now);
                results.addNull();
            }
            case "most" -> results.add(manager.maxValueInQuotaWindow(session, client));
            case "sharing" -> results.add(JSON.valueToTree(List.copyOf(manager.getOrCreateQuotaSensors(session, client).metricTags().values())));
            default -> {
                ControllerMutationQuotaManager mutations = (ControllerMutationQuotaManager) manager;
                ControllerMutationQuota quota = step.get(5).asBoolean()
                    ? mutations.newStrictQuotaFor(session, client) : mutations.newPermissiveQuotaFor(session, client);
                boolean refused = false;
                try {
                    quota.record(step.get(4).asDouble());
                } catch (ThrottlingQuotaExceededException e) {
                    refused = true;
                }
                if (throttles) {
                    manager.throttle(client, session, UNMUTED, quota.throttleTime());
                }
                results.addArray().add(refused).add(quota.throttleTime());
            }
        }
    }

    private static Session session(String user) throws Exception {
        return new Session(new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user), InetAddress.getLoopbackAddress());
    }

    private static Optional<ConfigEntity> user(JsonNode name) throws Exception {
        if (name.isNull()) {
            return Optional.empty();
        }
        return Optional.of(name.asText().equals(DEFAULT) ? ClientQuotaManager.DEFAULT_USER_ENTITY
            : new ClientQuotaManager.UserEntity(session(name.asText()).sanitizedUser));
    }

    private static Optional<ConfigEntity> clientId(JsonNode name) {
        if (name.isNull()) {
            return Optional.empty();
        }
        return Optional.of(name.asText().equals(DEFAULT) ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID
            : new ClientQuotaManager.ClientIdEntity(name.asText()));
    }
}
