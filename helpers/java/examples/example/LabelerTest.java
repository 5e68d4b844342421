package example;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.holdfast.testing.Fault;
import dev.holdfast.testing.Holdfast;
import dev.holdfast.testing.HoldfastTest;
import dev.holdfast.testing.TestNamespace;
import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientException;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Tests a controller with Holdfast. */
@HoldfastTest
class LabelerTest {
    /** One pass of a controller: it labels each ConfigMap, and tries again after a conflict. */
    static void labelConfigMaps(KubernetesClient client, String namespace) {
        var configMaps = client.configMaps().inNamespace(namespace);
        for (ConfigMap found : configMaps.withLabelNotIn("seen", "true").list().getItems()) {
            ConfigMap settings = found;
            while (settings != null) {
                settings.getMetadata().setLabels(Map.of("seen", "true"));
                try {
                    configMaps.resource(settings).update();
                    settings = null;
                } catch (KubernetesClientException error) {
                    if (error.getCode() != 409) {
                        throw error;
                    }
                    settings = configMaps.withName(settings.getMetadata().getName()).get();
                }
            }
        }
    }

    @Test
    void labelerRetriesAfterConflict(Holdfast server, KubernetesClient client, TestNamespace namespace) {
        var configMaps = client.configMaps().inNamespace(namespace.name());
        configMaps.resource(new ConfigMapBuilder().withNewMetadata().withName("settings").endMetadata().build()).create();
        // The first update fails with a conflict.
        var fault = server.addFault(Fault.error(409).verbs("update").resource("configmaps").count(1));

        labelConfigMaps(client, namespace.name());

        assertEquals(Map.of("seen", "true"), configMaps.withName("settings").get().getMetadata().getLabels());
        assertEquals(1, server.fault(fault.id()).fired());
    }
}
