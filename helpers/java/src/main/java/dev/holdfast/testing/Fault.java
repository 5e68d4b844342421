package dev.holdfast.testing;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.time.Duration;

/**
 * Rule that causes an error, a delay or the end of a watch. A setting that is not called selects every value.
 *
 * <pre>{@code Fault.error(409).verbs("update").resource("configmaps").count(1)}</pre>
 */
public final class Fault {
    private final JsonObject rule = new JsonObject();
    private final JsonObject match = new JsonObject();

    private Fault(JsonObject action) {
        rule.add("match", match);
        rule.add("action", action);
    }

    /** Fails requests before their handler. Codes are 409, 429, 500, 503 and 504. */
    public static Fault error(int code) {
        JsonObject error = new JsonObject();
        error.addProperty("code", code);
        return new Fault(object("error", error));
    }

    /** Stores the write, and answers with 504. */
    public static Fault timeoutAfterWrite() {
        return new Fault(object("timeoutAfterWrite", new JsonObject()));
    }

    /** Delays requests. */
    public static Fault latency(Duration duration) {
        return new Fault(object("latency", delay(duration)));
    }

    /** Ends watches after a number of events. */
    public static Fault watchEnd(int afterEvents) {
        return new Fault(object("watch", object("end", afterEvents(afterEvents))));
    }

    /** Ends watches with the error 410 after a number of events. */
    public static Fault watchExpired(int afterEvents) {
        return new Fault(object("watch", object("expired", afterEvents(afterEvents))));
    }

    /** Delays each event of watches. */
    public static Fault watchLag(Duration duration) {
        return new Fault(object("watch", object("lag", delay(duration))));
    }

    /** Fails calls of admission webhooks. */
    public static Fault webhookUnavailable() {
        return new Fault(object("webhookUnavailable", new JsonObject()));
    }

    /** Rejects the credentials of a user. */
    public static Fault tokenExpired() {
        return new Fault(object("tokenExpired", new JsonObject()));
    }

    /** Selects verbs of the API, such as {@code update} and {@code watch}. */
    public Fault verbs(String... verbs) {
        JsonArray list = new JsonArray();
        for (String verb : verbs) {
            list.add(verb);
        }
        match.add("verbs", list);
        return this;
    }

    /** Selects a group; the empty one is the core group. */
    public Fault group(String group) {
        return matching("group", group);
    }

    /** Selects a resource by its plural name. */
    public Fault resource(String resource) {
        return matching("resource", resource);
    }

    /** Selects a subresource; the empty one is the object itself. */
    public Fault subresource(String subresource) {
        return matching("subresource", subresource);
    }

    /** Selects a namespace. */
    public Fault namespace(String namespace) {
        return matching("namespace", namespace);
    }

    /** Selects the name of an object. */
    public Fault name(String name) {
        return matching("name", name);
    }

    /** Selects a user. */
    public Fault user(String user) {
        return matching("user", user);
    }

    /** Selects clients by a part of their User-Agent. */
    public Fault userAgent(String part) {
        return matching("userAgent", part);
    }

    /** Selects a webhook by the name of its configuration. */
    public Fault webhookConfiguration(String name) {
        return matching("webhookConfiguration", name);
    }

    /** Sets the number of matching requests that pass first. */
    public Fault skip(long requests) {
        rule.addProperty("skip", requests);
        return this;
    }

    /** Sets the maximum number of times that the fault fires. */
    public Fault count(long times) {
        rule.addProperty("count", times);
        return this;
    }

    /** Sets the probability, from 0 to 1. The seed determines the choices. */
    public Fault probability(double probability, long seed) {
        rule.addProperty("probability", probability);
        rule.addProperty("seed", seed);
        return this;
    }

    JsonObject json() {
        return rule.deepCopy();
    }

    private Fault matching(String field, String value) {
        match.addProperty(field, value);
        return this;
    }

    private static JsonObject object(String field, JsonObject value) {
        JsonObject made = new JsonObject();
        made.add(field, value);
        return made;
    }

    private static JsonObject delay(Duration duration) {
        JsonObject made = new JsonObject();
        made.addProperty("duration", Controls.text(duration));
        return made;
    }

    private static JsonObject afterEvents(int number) {
        JsonObject made = new JsonObject();
        made.addProperty("afterEvents", number);
        return made;
    }
}
