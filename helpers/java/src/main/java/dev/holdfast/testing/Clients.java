package dev.holdfast.testing;

import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.util.ClientBuilder;
import io.kubernetes.client.util.KubeConfig;
import java.io.IOException;
import java.io.StringReader;
import java.io.UncheckedIOException;

/** Makes clients. A test that uses one of them does not need the other one, so each has a class of its own. */
public final class Clients {
    private Clients() {}

    /** fabric8's client. */
    public static final class Fabric8 {
        private Fabric8() {}

        /** Returns a client of the server with all rights. The caller closes it. */
        public static KubernetesClient connect(Controls server) {
            return new KubernetesClientBuilder()
                    .withConfig(Config.fromKubeconfig(server.kubeconfig()))
                    .build();
        }
    }

    /** The official client. */
    public static final class Official {
        private Official() {}

        /** Returns a client of the server with all rights. */
        public static ApiClient connect(Controls server) {
            try {
                return ClientBuilder.kubeconfig(KubeConfig.loadKubeConfig(new StringReader(server.kubeconfig())))
                        .build();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}
