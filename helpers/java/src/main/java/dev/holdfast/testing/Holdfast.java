package dev.holdfast.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A server with its objects in memory, on a free port. It runs until it is closed, or this process ends. */
public final class Holdfast extends Controls implements AutoCloseable {
    private static final int START_TIMEOUT_SECONDS = 60;
    private static final int STOP_TIMEOUT_SECONDS = 20;

    /**
     * The command that {@code holdfast run} runs. It prints the path of the kubeconfig, and ends when its standard input ends.
     * The server ends with it, even if this process is killed.
     */
    private static final String HELPER = "printf '%s\\n' \"$KUBECONFIG\"; exec cat >/dev/null";

    private final Child child;

    private Holdfast(String kubeconfig, Child child) {
        super(kubeconfig);
        this.child = child;
    }

    /** Starts a server with the default controllers. */
    public static Holdfast start() {
        return start(null, List.of("*"), List.of());
    }

    /**
     * Starts a server.
     *
     * @param binary path of the binary; null for the value of HOLDFAST, or the first one in PATH
     * @param controllers controllers, as in the flag --controllers
     * @param args further flags of the server
     */
    public static Holdfast start(String binary, List<String> controllers, List<String> args) {
        List<String> command = new ArrayList<>();
        command.add(Binary.find(binary, System.getenv()).toString());
        command.addAll(List.of("run", "--testing-endpoints=true", "--controllers=" + String.join(",", controllers)));
        command.addAll(args);
        command.addAll(List.of("--", "sh", "-c", HELPER));
        Child child = new Child(command);
        try {
            return new Holdfast(Files.readString(Path.of(child.firstLine())), child);
        } catch (IOException error) {
            child.process.destroyForcibly();
            throw new UncheckedIOException(error);
        } catch (RuntimeException error) {
            child.process.destroyForcibly();
            throw error;
        }
    }

    /** Returns the last lines of the log of the server. */
    public String log() {
        return child.log();
    }

    /** Ends the server. */
    @Override
    public void close() {
        child.close();
    }

    private static final class Child {
        private static final int MAX_LOG_LINES = 500;

        private final Process process;
        private final Deque<String> log = new ArrayDeque<>();
        private final Thread logReader;

        Child(List<String> command) {
            try {
                process = new ProcessBuilder(command).start();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            logReader = new Thread(() -> read(process.getErrorStream()), "holdfast-log");
            logReader.setDaemon(true);
            logReader.start();
        }

        String firstLine() {
            BufferedReader output =
                    new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            CompletableFuture<String> first = new CompletableFuture<>();
            Thread reader = new Thread(() -> {
                try {
                    first.complete(output.readLine());
                } catch (IOException error) {
                    first.completeExceptionally(error);
                }
            });
            reader.setDaemon(true);
            reader.start();
            try {
                String line = first.get(START_TIMEOUT_SECONDS, TimeUnit.SECONDS);
                if (line == null) {
                    int code = process.waitFor();
                    logReader.join();
                    throw new IllegalStateException("Holdfast did not start: exit status " + code + "\n" + log());
                }
                return line;
            } catch (TimeoutException error) {
                throw new IllegalStateException(
                        "Holdfast did not start within " + START_TIMEOUT_SECONDS + " s\n" + log());
            } catch (ExecutionException error) {
                throw new IllegalStateException(error);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(error);
            }
        }

        String log() {
            synchronized (log) {
                return String.join("\n", log);
            }
        }

        void close() {
            try {
                process.getOutputStream().close();
                if (!process.waitFor(STOP_TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
                    process.destroyForcibly();
                    throw new IllegalStateException(
                            "Holdfast did not end within " + STOP_TIMEOUT_SECONDS + " s\n" + log());
                }
                logReader.join();
                if (process.exitValue() != 0) {
                    throw new IllegalStateException(
                            "Holdfast ended with exit status " + process.exitValue() + "\n" + log());
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                process.destroyForcibly();
            }
        }

        private void read(InputStream stream) {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    synchronized (log) {
                        if (log.size() == MAX_LOG_LINES) {
                            log.removeFirst();
                        }
                        log.addLast(line);
                    }
                }
            } catch (IOException error) {
                // The process has ended.
            }
        }
    }
}
