package dev.holdfast.testing;

import com.google.gson.JsonObject;
import dev.holdfast.testing.Controls.Watchers;
import java.util.List;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** Extension of {@link HoldfastTest}. */
public final class HoldfastExtension
        implements BeforeEachCallback, AfterTestExecutionCallback, AfterEachCallback, ParameterResolver {
    /** Key of the text of the timeline in the report entries of a failed test. */
    public static final String TIMELINE = "Holdfast timeline";

    private static final Namespace SPACE = Namespace.create(HoldfastExtension.class);
    private static final String START = "junit-start";
    private static final String FABRIC8 = "io.fabric8.kubernetes.client.KubernetesClient";
    private static final String OFFICIAL = "io.kubernetes.client.openapi.ApiClient";

    @Override
    public void beforeEach(ExtensionContext context) {
        server(context).keep(START);
    }

    @Override
    public void afterTestExecution(ExtensionContext context) {
        if (context.getExecutionException().isEmpty()) {
            return;
        }
        TestNamespace namespace = context.getStore(SPACE).get(TestNamespace.class, TestNamespace.class);
        String name = namespace == null ? "" : namespace.name();
        String text;
        try {
            text = server(context).timeline(name, Controls.TIMELINE_LINES);
        } catch (RuntimeException error) {
            text = "there is no timeline: " + error;
        }
        String about = name.isEmpty() ? "all namespaces" : "namespace " + name;
        System.err.println(TIMELINE + " of " + about + ":\n" + text);
        context.publishReportEntry(TIMELINE, text.isEmpty() ? "empty" : text);
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Holdfast server = server(context);
        server.clearFaults();
        server.restore(START, Watchers.DIFFERENCES);
        server.forget(START);
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        Class<?> type = parameter.getParameter().getType();
        return type == Holdfast.class
                || type == TestNamespace.class
                || type.getName().equals(FABRIC8)
                || type.getName().equals(OFFICIAL);
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Holdfast server = server(context);
        Class<?> type = parameter.getParameter().getType();
        if (type == Holdfast.class) {
            return server;
        }
        Store store = context.getStore(SPACE);
        if (type == TestNamespace.class) {
            return store.getOrComputeIfAbsent(
                    TestNamespace.class, key -> createNamespace(server), TestNamespace.class);
        }
        if (type.getName().equals(FABRIC8)) {
            Client client = store.getOrComputeIfAbsent(Client.class, key -> new Client(server), Client.class);
            return client.client();
        }
        return Clients.Official.connect(server);
    }

    /** Returns the server of the test class. It starts with the first use, and ends with the class. */
    private static Holdfast server(ExtensionContext context) {
        ExtensionContext ofClass = context;
        while (ofClass.getParent().isPresent()
                && ofClass.getParent().get().getTestClass().isPresent()) {
            ofClass = ofClass.getParent().get();
        }
        HoldfastTest settings = annotation(context);
        return ofClass.getStore(SPACE)
                .getOrComputeIfAbsent(Running.class, key -> new Running(settings), Running.class)
                .server;
    }

    private static HoldfastTest annotation(ExtensionContext context) {
        Class<?> type = context.getRequiredTestClass();
        while (type != null && !type.isAnnotationPresent(HoldfastTest.class)) {
            type = type.getEnclosingClass();
        }
        if (type == null) {
            throw new IllegalStateException("the class has no @HoldfastTest");
        }
        return type.getAnnotation(HoldfastTest.class);
    }

    private static TestNamespace createNamespace(Holdfast server) {
        JsonObject metadata = new JsonObject();
        metadata.addProperty("generateName", "test-");
        JsonObject namespace = new JsonObject();
        namespace.addProperty("apiVersion", "v1");
        namespace.addProperty("kind", "Namespace");
        namespace.add("metadata", metadata);
        JsonObject created = server.request("POST", "/api/v1/namespaces", namespace);
        return new TestNamespace(created.getAsJsonObject("metadata").get("name").getAsString());
    }

    /** Server of a class, which JUnit closes. */
    @SuppressWarnings("deprecation")
    private static final class Running implements Store.CloseableResource {
        private final Holdfast server;

        Running(HoldfastTest settings) {
            String binary = settings.binary().isEmpty() ? null : settings.binary();
            server = Holdfast.start(binary, List.of(settings.controllers()), List.of(settings.args()));
        }

        @Override
        public void close() {
            server.close();
        }
    }

    /** fabric8's client of a test, which JUnit closes. */
    @SuppressWarnings("deprecation")
    private static final class Client implements Store.CloseableResource {
        private final AutoCloseable client;

        Client(Holdfast server) {
            client = Clients.Fabric8.connect(server);
        }

        Object client() {
            return client;
        }

        @Override
        public void close() throws Exception {
            client.close();
        }
    }
}
