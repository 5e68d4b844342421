import java.util.Objects;
import java.util.concurrent.Callable;

/** What the checks of both clients share. */
final class Checks {
  static final String NAMESPACE = "default";
  private static final long PATIENCE_NANOS = 60_000_000_000L;

  private Checks() {}

  /** Something that may fail. */
  interface Check {
    void run() throws Exception;
  }

  static void check(String name, Check check) throws Exception {
    try {
      check.run();
    } catch (Exception | AssertionError error) {
      throw new AssertionError(name, error);
    }
    System.out.println("ok " + name);
  }

  static void same(Object expected, Object found) {
    if (!Objects.equals(expected, found)) {
      throw new AssertionError("expected " + expected + ", found " + found);
    }
  }

  static void holds(boolean condition, Object told) {
    if (!condition) {
      throw new AssertionError(String.valueOf(told));
    }
  }

  static void until(String what, Callable<Boolean> ask) throws Exception {
    long end = System.nanoTime() + PATIENCE_NANOS;
    while (!ask.call()) {
      holds(System.nanoTime() < end, "not in time: " + what);
      Thread.sleep(20);
    }
  }
}
