import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ClientRequestQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Runs Kafka's quota managers on a clock that the input sets. Each line of the input is a JSON object with the kind of quota and steps;
 * each line of the output has the result of each step.
 */
public class Quotas {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String DEFAULT = "";

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
        ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(question.get("samples").asInt(), question.get("window_s").asInt());
        ClientQuotaManager manager = switch (question.get("kind").asText()) {
            case "request" -> new ClientRequestQuotaManager(config, metrics, time, "", Optional.empty());
            case "mutation" -> new ControllerMutationQuotaManager(config, metrics, time, "", Optional.empty());
            default -> new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, time, "");
        };
        ArrayNode results = JSON.createArrayNode();
        for (JsonNode step : question.get("steps")) {
            time.now = step.get(1).asLong();
            add(results, manager, step, time);
        }
        manager.initiateShutdown();
        return results;
    }

    private static void add(ArrayNode results, ClientQuotaManager manager, JsonNode step, SetTime time) throws Exception {
        if (step.get(0).asText().equals("set")) {
            Optional<Quota> quota = step.get(4).isNull() ? Optional.empty() : Optional.of(Quota.upperBound(step.get(4).asDouble()));
            manager.updateQuota(user(step.get(2)), clientId(step.get(3)), quota);
            results.addNull();
            return;
        }
        Session session = session(step.get(2).asText());
        String client = step.get(3).asText();
        switch (step.get(0).asText()) {
            case "record" ->
                results.add(manager.maybeRecordAndGetThrottleTimeMs(session, client, step.get(4).asDouble(), time.now));
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
