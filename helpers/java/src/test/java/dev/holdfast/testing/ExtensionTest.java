package dev.holdfast.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import java.util.List;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.platform.testkit.engine.EngineTestKit;
import org.junit.platform.testkit.engine.EventType;

/** Tests of the extension. */
@HoldfastTest
class ExtensionTest {
    @RepeatedTest(2)
    void eachTestBeginsWithTheSameState(Holdfast server, KubernetesClient client) {
        var configMaps = client.configMaps().inNamespace("default");
        assertEquals(null, configMaps.withName("settings").get());
        assertEquals(List.of(), server.faults());
        configMaps.resource(configMap("settings")).create();
        server.addFault(Fault.error(500).skip(1000));
    }

    @Test
    void clientsHaveTheSameNamespace(KubernetesClient fabric8, ApiClient official, TestNamespace namespace)
            throws ApiException {
        fabric8.configMaps().inNamespace(namespace.name()).resource(configMap("settings")).create();
        var found = new CoreV1Api(official).readNamespacedConfigMap("settings", namespace.name()).execute();
        assertEquals("settings", found.getMetadata().getName());
    }

    @Nested
    class Inner {
        @Test
        void nestedClassUsesTheSameServer(Holdfast server) {
            assertFalse(server.url().isEmpty());
        }
    }

    @Test
    void failedTestPublishesTheTimelineOfItsNamespace() {
        var events = EngineTestKit.engine("junit-jupiter")
                .selectors(selectClass(Failing.class))
                .execute()
                .testEvents();
        events.assertStatistics(counted -> counted.failed(1));
        String published = events.filter(event -> event.getType() == EventType.REPORTING_ENTRY_PUBLISHED)
                .map(event -> event.getPayload().orElseThrow().toString())
                .findFirst()
                .orElseThrow();
        assertTrue(published.contains("mine") && !published.contains("other"), published);
    }

    @HoldfastTest(controllers = {})
    static class Failing {
        @Test
        void fails(KubernetesClient client, TestNamespace namespace) {
            client.configMaps().inNamespace(namespace.name()).resource(configMap("mine")).create();
            client.configMaps().inNamespace("default").resource(configMap("other")).create();
            throw new IllegalStateException("it fails on purpose");
        }
    }

    private static io.fabric8.kubernetes.api.model.ConfigMap configMap(String name) {
        return new ConfigMapBuilder().withNewMetadata().withName(name).endMetadata().build();
    }
}
