package dev.holdfast.testing;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Controls of a server that has the endpoints for tests (--testing-endpoints). */
public class Controls {
    /** Number of lines of the timeline that a failed test prints. */
    public static final int TIMELINE_LINES = 50;

    private static final Duration TIMEOUT = Duration.ofMinutes(2);

    private final String kubeconfig;
    private final Credentials credentials;
    private final HttpClient client;

    Controls(String kubeconfig) {
        this.kubeconfig = kubeconfig;
        credentials = new Credentials(kubeconfig);
        client = HttpClient.newBuilder()
                .sslContext(credentials.tls)
                .version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(TIMEOUT)
                .build();
    }

    /** A kept state of all objects. */
    public record Checkpoint(String name, String resourceVersion, int objects) {}

    /** Changes of a restore. */
    public record Restored(String resourceVersion, int created, int updated, int deleted) {}

    /** Counters of a fault. */
    public record FaultStatus(long id, long matched, long fired) {}

    /** Effect of a restore on open watches. */
    public enum Watchers {
        /** They get the changes as events. */
        DIFFERENCES,
        /** They get the error 410. */
        EXPIRE
    }

    /** Returns the kubeconfig of a user with all rights. It contains the certificates. */
    public String kubeconfig() {
        return kubeconfig;
    }

    /** Returns the URL of the server. */
    public String url() {
        return credentials.url;
    }

    /** Keeps the current state of all objects as a checkpoint. */
    public Checkpoint keep(String name) {
        JsonObject body = new JsonObject();
        body.addProperty("name", name);
        return checkpoint(send("POST", "checkpoints", body));
    }

    /** Returns all checkpoints. */
    public List<Checkpoint> checkpoints() {
        List<Checkpoint> list = new ArrayList<>();
        for (JsonElement item : send("GET", "checkpoints", null).getAsJsonArray("checkpoints")) {
            list.add(checkpoint(item.getAsJsonObject()));
        }
        return list;
    }

    /** Deletes a checkpoint. */
    public void forget(String name) {
        send("DELETE", "checkpoints/" + escaped(name), null);
    }

    /** Restores the state of a checkpoint. */
    public Restored restore(String name, Watchers watchers) {
        JsonObject body = new JsonObject();
        body.addProperty("watchers", watchers == Watchers.EXPIRE ? "expire" : "differences");
        JsonObject answer = send("POST", "checkpoints/" + escaped(name) + "/restore", body);
        return new Restored(
                answer.get("resourceVersion").getAsString(),
                answer.get("created").getAsInt(),
                answer.get("updated").getAsInt(),
                answer.get("deleted").getAsInt());
    }

    /** Starts a server with the state of a checkpoint, in the process of this one. */
    public Fork fork(String checkpoint) {
        JsonObject answer = send("POST", "checkpoints/" + escaped(checkpoint) + "/fork", null);
        return new Fork(answer.get("kubeconfig").getAsString(), answer.get("id").getAsLong(), this);
    }

    /** Adds a fault. */
    public FaultStatus addFault(Fault fault) {
        return status(send("POST", "faults", fault.json()));
    }

    /** Returns the counters of a fault. */
    public FaultStatus fault(long id) {
        return status(send("GET", "faults/" + id, null));
    }

    /** Returns the counters of all faults. */
    public List<FaultStatus> faults() {
        return statuses(send("GET", "faults", null));
    }

    /** Deletes a fault, and returns its last counters. */
    public FaultStatus removeFault(long id) {
        return status(send("DELETE", "faults/" + id, null));
    }

    /** Deletes all faults, and returns their last counters. */
    public List<FaultStatus> clearFaults() {
        return statuses(send("DELETE", "faults", null));
    }

    /** Moves the clock forward, and returns the duration by which it is ahead, such as {@code 1h30m0s}. */
    public String advance(Duration by) {
        JsonObject body = new JsonObject();
        body.addProperty("advance", text(by));
        return send("POST", "clock", body).get("advanced").getAsString();
    }

    /** Returns the time of the server in RFC 3339. */
    public String now() {
        return send("GET", "clock", null).get("now").getAsString();
    }

    /** Returns the last lines of the timeline of a namespace. An empty namespace selects all requests. */
    public String timeline(String namespace, int limit) {
        String query = "?limit=" + limit + (namespace.isEmpty() ? "" : "&namespace=" + escaped(namespace));
        return exchange("GET", "/testing/timeline" + query, null);
    }

    static String text(Duration duration) {
        return duration.toMillis() + "ms";
    }

    JsonObject send(String method, String path, JsonObject body) {
        return request(method, "/testing/" + path, body);
    }

    JsonObject request(String method, String path, JsonObject body) {
        return JsonParser.parseString(exchange(method, path, body)).getAsJsonObject();
    }

    private String exchange(String method, String path, JsonObject body) {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url() + path))
                .timeout(TIMEOUT)
                .header("Content-Type", "application/json")
                .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body.toString()))
                .build();
        HttpResponse<String> response;
        try {
            response = client.send(request, BodyHandlers.ofString());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
        if (response.statusCode() >= 400) {
            throw new ApiError(response.statusCode(), message(response.body()));
        }
        return response.body();
    }

    private static String message(String body) {
        try {
            return JsonParser.parseString(body).getAsJsonObject().get("message").getAsString();
        } catch (JsonParseException | IllegalStateException | NullPointerException error) {
            return body.substring(0, Math.min(200, body.length()));
        }
    }

    private static Checkpoint checkpoint(JsonObject answer) {
        return new Checkpoint(
                answer.get("name").getAsString(),
                answer.get("resourceVersion").getAsString(),
                answer.get("objects").getAsInt());
    }

    private static FaultStatus status(JsonObject answer) {
        JsonObject status = answer.getAsJsonObject("status");
        return new FaultStatus(
                answer.get("id").getAsLong(), status.get("matched").getAsLong(), status.get("fired").getAsLong());
    }

    private static List<FaultStatus> statuses(JsonObject answer) {
        List<FaultStatus> list = new ArrayList<>();
        for (JsonElement item : answer.getAsJsonArray("faults")) {
            list.add(status(item.getAsJsonObject()));
        }
        return list;
    }

    private static String escaped(String part) {
        return URLEncoder.encode(part, StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** Another server in the process of the first one. It began with the state of a checkpoint. */
    public static final class Fork extends Controls implements AutoCloseable {
        private final long id;
        private final Controls origin;

        private Fork(String kubeconfig, long id, Controls origin) {
            super(kubeconfig);
            this.id = id;
            this.origin = origin;
        }

        /** Ends the fork. It ends with the first server at the latest. */
        @Override
        public void close() {
            origin.send("DELETE", "forks/" + id, null);
        }
    }
}
