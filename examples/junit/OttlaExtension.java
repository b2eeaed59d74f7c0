import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * One broker for all tests of a run: {@code @ExtendWith(OttlaExtension.class)}, and a parameter {@code @Ottla String bootstrap}.
 *
 * <p>It starts {@code ottla serve}, or what the environment variable OTTLA names, on a free port, and stops it when the run ends.
 */
public final class OttlaExtension implements BeforeAllCallback, ParameterResolver {
    private static final ExtensionContext.Namespace OURS = ExtensionContext.Namespace.create(OttlaExtension.class);
    private static final Pattern BOOTSTRAP = Pattern.compile("\"bootstrap\": \"([^\"]+)\"");
    private static final int STOP_TIMEOUT_S = 10;

    @Override
    public void beforeAll(ExtensionContext context) {
        broker(context);
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.isAnnotated(Ottla.class) && parameter.getParameter().getType() == String.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        return broker(context).bootstrap;
    }

    private static Broker broker(ExtensionContext context) {
        // The store of the root is closed when the whole run has ended, and closes the broker.
        return context.getRoot().getStore(OURS).getOrComputeIfAbsent(Broker.class, kind -> new Broker(), Broker.class);
    }

    /** Marks the parameter that becomes the broker's bootstrap servers. */
    @java.lang.annotation.Retention(java.lang.annotation.RetentionPolicy.RUNTIME)
    public @interface Ottla {}

    private static final class Broker implements ExtensionContext.Store.CloseableResource {
        private final Path data;
        private final Process process;
        private final String bootstrap;

        Broker() {
            String ottla = System.getenv().getOrDefault("OTTLA", "ottla");
            try {
                data = Files.createTempDirectory("ottla");
                process = new ProcessBuilder(ottla, "serve", "--listen", "127.0.0.1:0", "--data-dir", data.toString())
                    .redirectError(ProcessBuilder.Redirect.INHERIT)
                    .start();
                bootstrap = bootstrap(process);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        private static String bootstrap(Process process) throws IOException {
            BufferedReader output = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            String line = output.readLine();
            Matcher ready = BOOTSTRAP.matcher(line == null ? "" : line);
            if (!ready.find()) {
                process.destroyForcibly();
                throw new IOException("ottla serve did not start; its log lines say why");
            }
            return ready.group(1);
        }

        @Override
        public void close() throws Exception {
            process.destroy();
            if (!process.waitFor(STOP_TIMEOUT_S, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
            try (var files = Files.walk(data)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        }
    }
}
