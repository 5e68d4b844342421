package dev.holdfast.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.holdfast.testing.Controls.Watchers;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests of servers and controls. */
class ServerTest {
    private static void create(Controls server, String name) {
        try (KubernetesClient client = Clients.Fabric8.connect(server)) {
            client.configMaps()
                    .inNamespace("default")
                    .resource(new ConfigMapBuilder()
                            .withNewMetadata()
                            .withName(name)
                            .endMetadata()
                            .build())
                    .create();
        }
    }

    private static Set<String> names(Controls server) {
        try (KubernetesClient client = Clients.Fabric8.connect(server)) {
            return client.configMaps().inNamespace("default").list().getItems().stream()
                    .map(item -> item.getMetadata().getName())
                    .filter(name -> !name.equals("kube-root-ca.crt"))
                    .collect(Collectors.toSet());
        }
    }

    @Test
    void serversHaveObjectsOfTheirOwn() {
        try (Holdfast first = Holdfast.start();
                Holdfast second = Holdfast.start()) {
            create(first, "settings");
            assertEquals(Set.of("settings"), names(first));
            assertEquals(Set.of(), names(second));
        }
    }

    @Test
    void stoppedServerIsGone() {
        Holdfast server = Holdfast.start();
        server.close();
        server.close();
        assertThrows(UncheckedIOException.class, server::now);
    }

    @Test
    void invalidFlagIsPartOfTheError() {
        var error = assertThrows(
                IllegalStateException.class, () -> Holdfast.start(null, List.of("*"), List.of("--no-such-flag")));
        assertTrue(error.getMessage().contains("--no-such-flag"), error.getMessage());
    }

    @Test
    void faultFiresUntilItsCount() {
        try (Holdfast server = Holdfast.start()) {
            var fault = server.addFault(
                    Fault.error(503).verbs("create").group("").resource("configmaps").count(1));
            // The client tries again after the first error.
            create(server, "settings");
            assertEquals(List.of(fault.id()), server.faults().stream().map(Controls.FaultStatus::id).toList());
            assertEquals(new Controls.FaultStatus(fault.id(), 2, 1), server.removeFault(fault.id()));
        }
    }

    @Test
    void invalidFaultIsAnError() {
        try (Holdfast server = Holdfast.start()) {
            var error = assertThrows(ApiError.class, () -> server.addFault(Fault.error(200)));
            assertEquals(400, error.code());
            assertTrue(error.getMessage().contains("code must be"), error.getMessage());
        }
    }

    @Test
    void restoreDeletesLaterObjects() {
        try (Holdfast server = Holdfast.start(null, List.of(), List.of())) {
            server.keep("start");
            create(server, "settings");
            // The server may have created objects of its own since the checkpoint.
            assertTrue(server.restore("start", Watchers.EXPIRE).deleted() >= 1);
            assertEquals(Set.of(), names(server));
            server.forget("start");
            assertEquals(List.of(), server.checkpoints());
        }
    }

    @Test
    void forkHasTheStateOfItsCheckpoint() {
        try (Holdfast server = Holdfast.start(null, List.of(), List.of())) {
            create(server, "before");
            server.keep("start");
            create(server, "after");
            Controls.Fork fork = server.fork("start");
            try (fork) {
                assertEquals(Set.of("before"), names(fork));
                create(fork, "of-fork");
                assertEquals(Set.of("before", "after"), names(server));
            }
            assertThrows(UncheckedIOException.class, fork::now);
        }
    }

    @Test
    void advanceMovesTheClock() {
        try (Holdfast server = Holdfast.start()) {
            assertEquals("1h30m0s", server.advance(Duration.ofMinutes(90)));
            assertTrue(Instant.parse(server.now()).isAfter(Instant.now().plus(Duration.ofMinutes(80))));
        }
    }

    @Test
    void binaryIsFoundInOrder(@TempDir Path folder) throws IOException {
        Path explicit = file(folder.resolve("explicit"));
        Path variable = file(folder.resolve("variable"));
        Path inPath = file(folder.resolve("path").resolve("holdfast"));
        String path = inPath.getParent().toString();
        Map<String, String> all = Map.of("HOLDFAST", variable.toString(), "PATH", path);
        assertEquals(explicit, Binary.find(explicit.toString(), all));
        assertEquals(variable, Binary.find(null, all));
        assertEquals(inPath, Binary.find(null, Map.of("PATH", path)));
        var error = assertThrows(IllegalStateException.class, () -> Binary.find(null, Map.of("PATH", "/nonexistent")));
        assertTrue(error.getMessage().contains("HOLDFAST"));
        assertThrows(IllegalStateException.class, () -> Binary.find("/nonexistent/holdfast", all));
    }

    private static Path file(Path path) throws IOException {
        Files.createDirectories(path.getParent());
        Files.writeString(path, "#!/bin/sh\n");
        assertTrue(path.toFile().setExecutable(true));
        assertFalse(Files.isDirectory(path));
        return path;
    }
}
