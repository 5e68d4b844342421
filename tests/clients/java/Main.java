/**
 * The Java clients against a server: the official one and fabric8's. The one argument is a kubeconfig. It prints the name of each check that
 * held, and ends with an error at the first that did not.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    new Official(arguments[0]).run();
    new Fabric8(arguments[0]).run();
    System.out.println("all held");
    // Threads of the clients' connections would keep the process.
    System.exit(0);
  }
}
