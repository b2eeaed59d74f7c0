import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;

/**
 * Brokers for tests: {@code @ExtendWith(OttlaExtension.class)}, and a parameter {@code @Ottla Broker broker}, {@code @Ottla Cluster
 * cluster}, or {@code @Ottla String bootstrap}.
 *
 * <p>Each test gets an empty broker: the broker of an earlier test, after a reset, or a new one if tests run in parallel. A parameter of
 * a {@code @BeforeAll} method keeps its broker for all tests of the class. All processes end with the run, even after SIGKILL. The error
 * of a failed test gets the history of its transactions. The command is $OTTLA, or "ottla" on the PATH, or "python3 -m ottla".
 */
public final class OttlaExtension implements ParameterResolver, TestExecutionExceptionHandler {
    private static final ExtensionContext.Namespace OURS = ExtensionContext.Namespace.create(OttlaExtension.class);
    private static final Duration START_TIMEOUT = Duration.ofSeconds(60);
    private static final Duration CHANGE_TIMEOUT = Duration.ofSeconds(30);
    private static final Duration ANSWER_TIMEOUT = Duration.ofSeconds(90);
    private static final int REPORT_LINES = 40;

    /** Marks a parameter that becomes a broker, a cluster or a bootstrap address. */
    @java.lang.annotation.Retention(java.lang.annotation.RetentionPolicy.RUNTIME)
    public @interface Ottla {
        /** Options of "ottla serve", such as {@code {"--clock", "manual"}} or {@code {"--set", "num.partitions=3"}}. */
        String[] value() default {};

        /** The number of brokers of a cluster. */
        int brokers() default 3;
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.isAnnotated(Ottla.class)
            && List.of(String.class, Broker.class, Cluster.class).contains(parameter.getParameter().getType());
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Ottla ottla = parameter.findAnnotation(Ottla.class).orElseThrow();
        List<String> options = List.of(ottla.value());
        Class<?> type = parameter.getParameter().getType();
        // The store of a test also finds the values of its class. It closes its own values when the test has ended.
        ExtensionContext.Store store = context.getStore(OURS);
        if (type == Cluster.class) {
            String key = ottla.brokers() + " brokers " + options;
            return remembered(context, store.getOrComputeIfAbsent(key, k -> new Cluster(ottla.brokers(), options), Cluster.class));
        }
        Pool pool = context.getRoot().getStore(OURS).getOrComputeIfAbsent(Pool.class, kind -> new Pool(), Pool.class);
        Broker broker = store.getOrComputeIfAbsent("broker " + options, key -> new Lease(pool, options), Lease.class).broker;
        remembered(context, broker);
        return type == Broker.class ? broker : broker.bootstrap();
    }

    private static <T extends Served> T remembered(ExtensionContext context, T served) {
        context.getStore(OURS).getOrComputeIfAbsent(context.getUniqueId(), id -> new Used(), Used.class).brokers.add(served);
        return served;
    }

    @Override
    public void handleTestExecutionException(ExtensionContext context, Throwable error) throws Throwable {
        List<String> lines = new ArrayList<>();
        for (var at = Optional.of(context); at.isPresent(); at = at.get().getParent()) {
            Used used = at.get().getStore(OURS).get(at.get().getUniqueId(), Used.class);
            lines.addAll(used == null ? List.of() : used.brokers.stream().distinct().flatMap(one -> one.history().stream()).toList());
        }
        if (!lines.isEmpty()) {
            error.addSuppressed(new Timeline(lines.stream().limit(REPORT_LINES - 1).collect(Collectors.joining("\n"))));
        }
        throw error;
    }

    /** The brokers of the parameters of a test, or of the methods of a class. */
    private static final class Used {
        private final List<Served> brokers = new ArrayList<>();
    }

    /** The history of the transactions of a failed test. */
    private static final class Timeline extends Exception {
        Timeline(String lines) {
            super("transactions on the broker:\n" + lines, null, false, false);
        }
    }

    /** The running brokers that no test uses, by their options. */
    private static final class Pool implements ExtensionContext.Store.CloseableResource {
        private final Map<List<String>, ConcurrentLinkedQueue<Broker>> free = new ConcurrentHashMap<>();

        @Override
        public void close() {
            free.values().forEach(brokers -> brokers.forEach(Broker::close));
        }
    }

    private static final class Lease implements ExtensionContext.Store.CloseableResource {
        private final ConcurrentLinkedQueue<Broker> free;
        private final Broker broker;

        Lease(Pool pool, List<String> options) {
            free = pool.free.computeIfAbsent(options, key -> new ConcurrentLinkedQueue<>());
            Broker earlier = free.poll();
            broker = earlier == null ? new Broker(options) : earlier;
            broker.resume();
            broker.reset();
        }

        @Override
        public void close() {
            free.add(broker);
        }
    }

    /** The requests that a fault hits, and its effect, as fields of docs/faults.md. */
    public static final class Fault {
        private final Map<String, Object> fields = new LinkedHashMap<>();

        /** Begins a fault of the requests of an API, such as "Produce". */
        public static Fault on(String api) {
            return new Fault().with("api", api);
        }

        public Fault topic(String pattern) {
            return with("topic", pattern);
        }

        public Fault transactionalId(String pattern) {
            return with("transactional_id", pattern);
        }

        /** Sets the maximum number of hits, by default one. */
        public Fault times(int hits) {
            return with("times", hits);
        }

        /** Removes the limit of hits. */
        public Fault always() {
            return with("times", null);
        }

        /** Sets any field; a value is a string, a number, a boolean or null. */
        public Fault with(String field, Object value) {
            fields.put(field, value);
            return this;
        }

        private String json() {
            return fields.entrySet().stream()
                .map(one -> quoted(one.getKey()) + ": " + (one.getValue() instanceof String text ? quoted(text) : one.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
        }

        private static String quoted(String text) {
            return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
        }
    }

    /** The faults of one broker. */
    public record Faults(Control control) {
        public AddedFault add(Fault fault) {
            return new AddedFault(control, "/v1/faults/" + number(control.ask("POST", "/v1/faults", fault.json()), "id"));
        }

        /** Answers requests with an error, such as "NOT_LEADER_OR_FOLLOWER", without effect. */
        public AddedFault error(String code, Fault which) {
            return add(which.with("error", code));
        }

        /** Closes the connection "before" or "after" requests take effect. */
        public AddedFault cut(String when, Fault which) {
            return add(which.with("cut", when));
        }

        /** Delays requests. */
        public AddedFault delay(Duration by, Fault which) {
            return add(which.with("delay_ms", by.toMillis()));
        }

        /** Removes all faults, and releases everything that they hold. */
        public void clear() {
            control.ask("DELETE", "/v1/faults", "");
        }
    }

    /** A fault that was added to a broker. */
    public record AddedFault(Control control, String path) {
        public long hits() {
            return number(control.ask("GET", path, ""), "hits");
        }

        /** Waits until the fault has this number of hits. Throws AssertionError after 10 s. */
        public void await(int hits) {
            long seen = number(control.ask("POST", path + "/wait", "{\"hits\": " + hits + ", \"timeout_ms\": 10000}"), "hits");
            if (seen < hits) {
                throw new AssertionError("the fault was triggered " + seen + " times in 10 s, not " + hits + " times");
            }
        }

        /** Removes the fault, and releases everything that it holds. */
        public void remove() {
            control.ask("DELETE", path, "");
        }
    }

    /** The clock of a broker. It can be advanced if the broker has the options "--clock", "manual". */
    public record Clock(Control control) {
        public Instant now() {
            return Instant.ofEpochMilli(number(control.ask("GET", "/v1/clock", ""), "now_ms"));
        }

        /** Advances the clock, and returns after all timers that expire in that time have run. */
        public void advance(Duration by) {
            control.ask("POST", "/v1/clock/advance", "{\"by_ms\": " + by.toMillis() + "}");
        }
    }

    /** A single broker. */
    public static final class Broker extends Served {
        private final Control control;

        Broker(List<String> options) {
            super(options);
            control = Control.of(ready);
        }

        public Faults faults() {
            return new Faults(control);
        }

        public Clock clock() {
            return new Clock(control);
        }

        /** Removes all topics, groups, transactions, configs and faults. Connections are closed; the address stays the same. */
        public void reset() {
            control.ask("POST", "/v1/reset", "");
        }

        /** Lets the broker answer nothing until {@link #resume}; connections stay open. */
        public void pause() {
            control.ask("POST", "/v1/pause", "");
        }

        public void resume() {
            control.ask("POST", "/v1/resume", "");
        }

        @Override
        List<Control> controls() {
            return List.of(control);
        }
    }

    /** A cluster of brokers with the ids 1, 2, 3 and so on. A cluster cannot be reset. */
    public static final class Cluster extends Served {
        private final int brokers;

        Cluster(int brokers, List<String> options) {
            super(Stream.concat(Stream.of("--brokers", "" + brokers, "--takes-commands"), options.stream()).toList());
            this.brokers = brokers;
        }

        private String node(int broker) {
            String started = nodes.get((long) broker);
            if (started == null) {
                throw new IllegalStateException("broker " + broker + " is not running; restart it first");
            }
            return started;
        }

        /** Returns the faults of one broker, which end with its process. */
        public Faults faults(int broker) {
            return new Faults(Control.of(node(broker)));
        }

        /** Lets a broker answer nothing until {@link #resume}; connections stay open. */
        public void pause(int broker) {
            Control.of(node(broker)).ask("POST", "/v1/pause", "");
        }

        public void resume(int broker) {
            Control.of(node(broker)).ask("POST", "/v1/resume", "");
        }

        /** Crashes a broker with SIGKILL. */
        public void kill(int broker) {
            ProcessHandle.of(number(node(broker), "pid")).ifPresent(ProcessHandle::destroyForcibly);
            await(() -> !nodes.containsKey((long) broker));
        }

        /** Shuts a broker down with SIGTERM; it first moves its leaderships to other brokers. */
        public void shutDown(int broker) {
            ProcessHandle.of(number(node(broker), "pid")).ifPresent(ProcessHandle::destroy);
            await(() -> !nodes.containsKey((long) broker));
        }

        /** Starts a broker again that was killed or shut down, or shuts it down first, and waits until it listens. */
        public void restart(int broker) {
            if (nodes.containsKey((long) broker)) {
                shutDown(broker);
            }
            try {
                process.getOutputStream().write((broker + "\n").getBytes(StandardCharsets.UTF_8));
                process.getOutputStream().flush();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            await(() -> nodes.containsKey((long) broker));
        }

        /** Returns the id of a partition's leader; -1 without a leader. */
        public int leader(String topic, int partition) {
            String described = command("topic", "describe", topic, "--json");
            return Integer.parseInt(found("\"partition\": ?" + partition + ", ?\"leader\": ?(-?\\d+)", described));
        }

        /** Makes an in-sync replica the leader of a partition, and waits for the change. */
        public void moveLeader(String topic, int partition, int to) {
            command("topic", "elect", topic + ":" + partition, "--to", "" + to);
            await(() -> leader(topic, partition) == to);
        }

        @Override
        List<Control> controls() {
            return Stream.iterate(1L, n -> n <= brokers, n -> n + 1).map(nodes::get).filter(n -> n != null).map(Control::of).toList();
        }
    }

    /** A process of "ottla serve" with its own temporary directory. */
    abstract static class Served implements ExtensionContext.Store.CloseableResource {
        final Process process;
        final String ready;
        /** The lines of the running nodes of a cluster, by id. */
        final Map<Long, String> nodes = new ConcurrentHashMap<>();
        private final Path directory;

        Served(List<String> options) {
            try {
                directory = Files.createTempDirectory("ottla-");
                List<String> command = ottla("serve", "--listen", "127.0.0.1:0", "--data-dir", directory.resolve("data").toString());
                command.addAll(List.of("--control-port", "0", "--owner-pid", "" + ProcessHandle.current().pid()));
                command.addAll(List.of("--owned-directory", directory.toString()));
                command.addAll(options);
                process = program(command).redirectError(directory.resolve("log").toFile()).start();
                CompletableFuture<String> first = new CompletableFuture<>();
                Thread reader = new Thread(() -> read(first), "ottla");
                reader.setDaemon(true);
                reader.start();
                ready = first.completeOnTimeout("", START_TIMEOUT.toSeconds(), TimeUnit.SECONDS).join();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            if (ready.isEmpty()) {
                String lines = lastLines();
                close();
                throw new IllegalStateException("ottla serve did not start:\n" + lines);
            }
        }

        private void read(CompletableFuture<String> first) {
            try (var output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
                for (String line = output.readLine(); line != null; line = output.readLine()) {
                    switch (found("\"event\": ?\"(\\w+)\"", line)) {
                        case "started" -> nodes.put(number(line, "node"), line);
                        case "ended" -> nodes.remove(number(line, "node"));
                        case "ready" -> first.complete(line);
                        default -> { }
                    }
                }
            } catch (IOException ended) {
                // The pipe was closed with the process.
            }
            first.complete("");
        }

        abstract List<Control> controls();

        /** The address for a client's bootstrap.servers. */
        public String bootstrap() {
            return found("\"bootstrap\": ?\"([^\"]+)\"", ready);
        }

        /** Runs a command of ottla with this address, such as {@code command("topic", "list")}, and returns its output. */
        public String command(String... arguments) {
            List<String> command = ottla(arguments);
            command.addAll(List.of("--bootstrap", bootstrap()));
            return output(command);
        }

        /** Returns the history of the transactions that the brokers know. */
        private List<String> history() {
            List<String> lines = new ArrayList<>();
            try {
                for (Control control : controls()) {
                    Matcher ids = TRANSACTIONAL_ID.matcher(control.ask("GET", "/v1/transactions", ""));
                    while (lines.size() < REPORT_LINES && ids.find()) {
                        String id = ids.group(1).replace("\\\"", "\"").replace("\\\\", "\\");
                        lines.add(id + ":");
                        command("txn", "timeline", id, "--url", control.url, "--token", control.token, "--max", "30").lines().forEach(lines::add);
                    }
                }
            } catch (RuntimeException error) {
                lines.add("the history of transactions is not available: " + error.getMessage());
            }
            return lines;
        }

        void await(BooleanSupplier condition) {
            long end = System.nanoTime() + CHANGE_TIMEOUT.toNanos();
            while (!condition.getAsBoolean()) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException("the command was not carried out within " + CHANGE_TIMEOUT.toSeconds() + " s:\n" + lastLines());
                }
                LockSupport.parkNanos(20_000_000);
            }
        }

        private String lastLines() {
            try {
                List<String> lines = Files.readAllLines(directory.resolve("log"));
                return String.join("\n", lines.subList(Math.max(0, lines.size() - 20), lines.size()));
            } catch (IOException error) {
                return error.toString();
            }
        }

        /** Stops the process, and removes its files. */
        @Override
        public void close() {
            process.destroy();
            CompletableFuture.delayedExecutor(CHANGE_TIMEOUT.toSeconds(), TimeUnit.SECONDS).execute(process::destroyForcibly);
            process.onExit().join();
            try (Stream<Path> files = Files.walk(directory)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }

    /** The control API of one broker (docs/control.md). */
    private record Control(String url, String token) {
        private static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

        static Control of(String event) {
            Matcher both = Pattern.compile("\"control\": ?\\{\"url\": ?\"([^\"]+)\", ?\"token\": ?\"([^\"]+)\"").matcher(event);
            both.find();
            return new Control(both.group(1), both.group(2));
        }

        String ask(String method, String path, String body) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
                .header("Authorization", "Bearer " + token)
                .timeout(ANSWER_TIMEOUT)
                .method(method, HttpRequest.BodyPublishers.ofString(body))
                .build();
            HttpResponse<String> response = CLIENT.sendAsync(request, HttpResponse.BodyHandlers.ofString()).join();
            if (response.statusCode() != 200) {
                throw new IllegalStateException(found("\"error\": ?\"(.*)\"", response.body()).replace("\\\"", "\""));
            }
            return response.body();
        }
    }

    private static final Pattern TRANSACTIONAL_ID = Pattern.compile("\"transactional_id\": ?\"((?:[^\"\\\\]|\\\\.)*)\"");

    private static String found(String pattern, String text) {
        Matcher matcher = Pattern.compile(pattern).matcher(text);
        return matcher.find() ? matcher.group(1) : "";
    }

    private static long number(String text, String field) {
        return Long.parseLong(found("\"" + field + "\": ?(-?\\d+)", text));
    }

    /** Returns a command of ottla. */
    private static List<String> ottla(String... arguments) {
        List<String> command = new ArrayList<>(find());
        command.addAll(Arrays.asList(arguments));
        return command;
    }

    private static List<String> find() {
        String given = System.getenv().getOrDefault("OTTLA", "");
        if (!given.isEmpty()) {
            if (!isOnPath(given)) {
                throw new IllegalStateException("OTTLA is \"" + given + "\", which cannot be run; set it to the path of the command ottla");
            }
            return List.of(given);
        }
        if (isOnPath("ottla")) {
            return List.of("ottla");
        }
        for (String python : List.of("python3", "python")) {
            if (isOnPath(python) && !output(List.of(python, "-P", "-c", HAS_OTTLA)).isBlank()) {
                return List.of(python, "-P", "-m", "ottla");
            }
        }
        throw new IllegalStateException("ottla was not found; install it for python3, put it on the PATH, or set OTTLA to its path");
    }

    private static final String HAS_OTTLA = "import importlib.util; print(importlib.util.find_spec('ottla') or '')";

    /** Whether a path, or a name on the PATH, is an executable file. */
    private static boolean isOnPath(String name) {
        Stream<String> directories = Stream.of(System.getenv().getOrDefault("PATH", "").split(":"));
        Stream<Path> paths = name.contains("/") ? Stream.of(Path.of(name)) : directories.map(directory -> Path.of(directory, name));
        return paths.anyMatch(path -> Files.isRegularFile(path) && Files.isExecutable(path));
    }

    /** Returns a process without the variables that configure another broker. */
    private static ProcessBuilder program(List<String> command) {
        ProcessBuilder program = new ProcessBuilder(command);
        program.environment().keySet().removeIf(name -> name.startsWith("KAFKA_") || name.startsWith("OTTLA_"));
        return program;
    }

    /** Returns the output of a command. Throws IllegalStateException with its error. */
    private static String output(List<String> command) {
        try {
            Process process = program(command).redirectErrorStream(true).start();
            String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (process.onExit().join().exitValue() != 0) {
                throw new IllegalStateException(text.strip());
            }
            return text;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
