package dev.holdfast.testing;

/** New namespace for a test. If the test fails, it prints the last lines of the timeline of the namespace. */
public record TestNamespace(String name) {}
