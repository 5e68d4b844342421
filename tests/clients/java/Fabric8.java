import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinition;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watch;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderCallbacks;
import io.fabric8.kubernetes.client.extended.leaderelection.LeaderElectionConfigBuilder;
import io.fabric8.kubernetes.client.extended.leaderelection.resourcelock.LeaseLock;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

/** fabric8's client: CRUD, patches, server-side apply, watches, informers, custom resources, leader election. */
final class Fabric8 {
  private final KubernetesClient client;

  Fabric8(String kubeconfig) {
    client = new KubernetesClientBuilder().withConfig(Config.fromKubeconfig(new File(kubeconfig))).build();
  }

  void run() throws Exception {
    Checks.check("fabric8: objects", this::objects);
    Checks.check("fabric8: patches", this::patches);
    Checks.check("fabric8: server-side apply", this::apply);
    Checks.check("fabric8: workloads", this::workloads);
    Checks.check("fabric8: watch", this::watch);
    Checks.check("fabric8: informer", this::informer);
    Checks.check("fabric8: custom resources", this::customResources);
    Checks.check("fabric8: leader election", this::leaderElection);
    client.close();
  }

  private static ConfigMap configMap(String name, Map<String, String> data) {
    return new ConfigMapBuilder()
        .withNewMetadata()
        .withName(name)
        .withNamespace(Checks.NAMESPACE)
        .addToLabels("suite", "fabric8")
        .endMetadata()
        .withData(data)
        .build();
  }

  private static KubernetesClientException refused(int code, Callable<?> call) throws Exception {
    try {
      call.call();
    } catch (KubernetesClientException refusal) {
      Checks.same(code, refusal.getCode());
      return refusal;
    }
    throw new AssertionError("not refused with " + code);
  }

  private ByteArrayInputStream stream(String text) {
    return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
  }

  private void objects() throws Exception {
    ConfigMap made = client.resource(configMap("crud", Map.of("a", "1"))).create();
    Checks.holds(made.getMetadata().getUid() != null, made);
    refused(409, () -> client.resource(configMap("crud", Map.of())).create());
    var maps = client.configMaps().inNamespace(Checks.NAMESPACE);
    ConfigMap edited = maps.withName("crud").edit(old -> new ConfigMapBuilder(old).addToData("b", "2").build());
    Checks.same(Map.of("a", "1", "b", "2"), edited.getData());
    KubernetesClientException stale =
        refused(409, () -> client.resource(new ConfigMapBuilder(made).addToData("c", "3").build()).lockResourceVersion().update());
    Checks.holds(stale.getStatus().getMessage().contains("the object has been modified"), stale.getStatus());
    Checks.same(1, maps.withLabel("suite", "fabric8").list().getItems().size());
    Checks.same(1, maps.withField("metadata.name", "crud").list().getItems().size());
    Checks.holds(!maps.withName("crud").delete().isEmpty(), "deleted");
    Checks.same(null, maps.withName("crud").get());
    Checks.holds(maps.withName("crud").delete().isEmpty(), "nothing was there");
    Checks.same("v1.36", client.getKubernetesVersion().getGitVersion().substring(0, 5));
  }

  private void patches() {
    client.resource(configMap("patched", Map.of("a", "1"))).create();
    var patched = client.configMaps().inNamespace(Checks.NAMESPACE).withName("patched");
    String[][] patches = {
      {"JSON", "[{\"op\":\"add\",\"path\":\"/data/b\",\"value\":\"2\"}]"},
      {"JSON_MERGE", "{\"data\":{\"a\":null}}"},
      {"STRATEGIC_MERGE", "{\"data\":{\"c\":\"3\"}}"},
    };
    for (String[] patch : patches) {
      patched.patch(PatchContext.of(PatchType.valueOf(patch[0])), patch[1]);
    }
    Checks.same(Map.of("b", "2", "c", "3"), patched.get().getData());
    patched.delete();
  }

  private void apply() throws Exception {
    client.resource(configMap("applied", Map.of("a", "1"))).fieldManager("alpha").serverSideApply();
    KubernetesClientException conflict =
        refused(409, () -> client.resource(configMap("applied", Map.of("a", "2"))).fieldManager("bravo").serverSideApply());
    Checks.holds(conflict.getStatus().getMessage().contains("conflict with \"alpha\": .data.a"), conflict.getStatus());
    ConfigMap forced =
        client.resource(configMap("applied", Map.of("a", "2"))).fieldManager("bravo").forceConflicts().serverSideApply();
    Checks.same("2", forced.getData().get("a"));
    ConfigMap again = client.resource(configMap("applied", Map.of("a", "2"))).fieldManager("bravo").serverSideApply();
    Checks.same(forced.getMetadata().getResourceVersion(), again.getMetadata().getResourceVersion());
    client.resource(forced).delete();
  }

  private void workloads() {
    String text =
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: web, namespace: default}
        spec:
          replicas: 1
          selector: {matchLabels: {app: web}}
          template:
            metadata: {labels: {app: web}}
            spec: {containers: [{name: main, image: registry.example.com/web}]}
        ---
        apiVersion: v1
        kind: Service
        metadata: {name: web, namespace: default}
        spec: {selector: {app: web}, ports: [{port: 80}]}
        """;
    Checks.same(2, client.load(stream(text)).serverSideApply().size());
    var web = client.apps().deployments().inNamespace(Checks.NAMESPACE).withName("web");
    Checks.same(4, web.scale(4).getSpec().getReplicas());
    Deployment told =
        web.editStatus(
            old -> {
              old.getStatus().setReplicas(4);
              return old;
            });
    Checks.same(4, told.getStatus().getReplicas());
    Checks.holds(client.services().inNamespace(Checks.NAMESPACE).withName("web").get().getSpec().getClusterIP() != null, "an address");
    client.load(stream(text)).delete();
    web.waitUntilCondition(object -> object == null, 60, TimeUnit.SECONDS);
  }

  private void watch() throws Exception {
    List<String> seen = new CopyOnWriteArrayList<>();
    Watcher<ConfigMap> watcher =
        new Watcher<>() {
          @Override
          public void eventReceived(Action action, ConfigMap object) {
            seen.add(action + " " + object.getData().get("n"));
          }

          @Override
          public void onClose(WatcherException cause) {
            seen.add("closed " + cause);
          }
        };
    var maps = client.configMaps().inNamespace(Checks.NAMESPACE);
    try (Watch watch = maps.withName("seen").watch(watcher)) {
      client.resource(configMap("seen", Map.of("n", "0"))).create();
      maps.withName("seen").edit(old -> new ConfigMapBuilder(old).addToData("n", "1").build());
      maps.withName("seen").delete();
      Checks.until("three events", () -> seen.size() == 3);
      Checks.same(List.of("ADDED 0", "MODIFIED 1", "DELETED 1"), seen);
    }
  }

  private static <T extends io.fabric8.kubernetes.api.model.HasMetadata> ResourceEventHandler<T> noting(List<String> seen) {
    return new ResourceEventHandler<>() {
      @Override
      public void onAdd(T object) {
        seen.add("add " + object.getMetadata().getName());
      }

      @Override
      public void onUpdate(T before, T object) {
        seen.add("update " + object.getMetadata().getName());
      }

      @Override
      public void onDelete(T object, boolean unknown) {
        seen.add("delete " + object.getMetadata().getName());
      }
    };
  }

  private void informer() throws Exception {
    List<String> seen = new CopyOnWriteArrayList<>();
    client.resource(configMap("before", Map.of("n", "0"))).create();
    var maps = client.configMaps().inNamespace(Checks.NAMESPACE).withLabel("suite", "fabric8");
    try (SharedIndexInformer<ConfigMap> informer = maps.inform(noting(seen))) {
      Checks.until("what was there is seen", () -> seen.size() == 1);
      client.resource(configMap("after", Map.of("n", "0"))).create();
      Checks.until("what is made is seen", () -> seen.size() == 2);
      client.resource(configMap("after", Map.of("n", "1"))).update();
      Checks.until("the change is seen", () -> seen.size() == 3);
      client.resource(configMap("after", Map.of())).delete();
      Checks.until("the deletion is seen", () -> seen.size() == 4);
      Checks.same(List.of("add before", "add after", "update after", "delete after"), seen);
      Checks.same(List.of("before"), informer.getStore().list().stream().map(map -> map.getMetadata().getName()).toList());
    }
    client.resource(configMap("before", Map.of())).delete();
  }

  /** What somebody wants of a sensor. */
  public static final class SensorSpec {
    public String place;
    public Integer interval;
  }

  /** What a sensor tells. */
  public static final class SensorStatus {
    public String last;
  }

  /** A custom resource with types. */
  @Group("fabric8.example.com")
  @Version("v1")
  public static final class Sensor extends CustomResource<SensorSpec, SensorStatus> implements Namespaced {}

  private static final String SENSORS =
      """
      apiVersion: apiextensions.k8s.io/v1
      kind: CustomResourceDefinition
      metadata: {name: sensors.fabric8.example.com}
      spec:
        group: fabric8.example.com
        scope: Namespaced
        names: {plural: sensors, kind: Sensor}
        versions:
        - name: v1
          served: true
          storage: true
          subresources: {status: {}}
          schema:
            openAPIV3Schema:
              type: object
              properties:
                spec:
                  type: object
                  required: [place]
                  properties:
                    place: {type: string, maxLength: 10}
                    interval: {type: integer, default: 30}
                status:
                  type: object
                  properties: {last: {type: string}}
      """;

  private static Sensor sensor(String name, String place) {
    Sensor sensor = new Sensor();
    sensor.getMetadata().setName(name);
    sensor.getMetadata().setNamespace(Checks.NAMESPACE);
    sensor.setSpec(new SensorSpec());
    sensor.getSpec().place = place;
    return sensor;
  }

  private static boolean established(CustomResourceDefinition found) {
    var status = found == null ? null : found.getStatus();
    if (status == null || status.getConditions() == null) {
      return false;
    }
    return status.getConditions().stream().anyMatch(told -> told.getType().equals("Established") && told.getStatus().equals("True"));
  }

  private void customResources() throws Exception {
    CustomResourceDefinition definition =
        client.apiextensions().v1().customResourceDefinitions().load(stream(SENSORS)).create();
    client
        .resource(definition)
        .waitUntilCondition(
            Fabric8::established,
            60,
            TimeUnit.SECONDS);
    var sensors = client.resources(Sensor.class).inNamespace(Checks.NAMESPACE);
    List<String> seen = new CopyOnWriteArrayList<>();
    try (SharedIndexInformer<Sensor> informer = sensors.inform(noting(seen))) {
      Checks.same(30, client.resource(sensor("roof", "roof")).create().getSpec().interval);
      KubernetesClientException refusal = refused(422, () -> client.resource(sensor("long", "a place far away")).create());
      Checks.same("spec.place", refusal.getStatus().getDetails().getCauses().get(0).getField());
      Sensor told =
          sensors
              .withName("roof")
              .editStatus(
                  old -> {
                    old.setStatus(new SensorStatus());
                    old.getStatus().last = "now";
                    old.getSpec().place = "cellar";
                    return old;
                  });
      Checks.same("now roof", told.getStatus().last + " " + told.getSpec().place);
      Checks.until("both changes are seen", () -> seen.size() == 2);
      Checks.same(List.of("add roof", "update roof"), seen);
      Checks.same("now", informer.getStore().list().get(0).getStatus().last);
    }
    GenericKubernetesResource generic =
        client.genericKubernetesResources("fabric8.example.com/v1", "Sensor").inNamespace(Checks.NAMESPACE).withName("roof").get();
    Checks.same("roof", ((Map<?, ?>) generic.getAdditionalProperties().get("spec")).get("place"));
    Checks.same(1, sensors.delete().size());
    client.resource(definition).delete();
    client.resource(definition).waitUntilCondition(found -> found == null, 60, TimeUnit.SECONDS);
  }

  private void leaderElection() throws Exception {
    List<String> told = new CopyOnWriteArrayList<>();
    var config =
        new LeaderElectionConfigBuilder()
            .withName("java")
            .withLock(new LeaseLock(Checks.NAMESPACE, "java-leader", "one"))
            .withLeaseDuration(Duration.ofSeconds(15))
            .withRenewDeadline(Duration.ofSeconds(10))
            .withRetryPeriod(Duration.ofMillis(100))
            .withReleaseOnCancel(true)
            .withLeaderCallbacks(
                new LeaderCallbacks(() -> told.add("leads"), () -> told.add("ends"), name -> told.add("leader " + name)))
            .build();
    var leading = client.leaderElector().withConfig(config).build().start();
    Checks.until("it leads", () -> told.contains("leads"));
    var lease = client.leases().inNamespace(Checks.NAMESPACE).withName("java-leader");
    Checks.same("one", lease.get().getSpec().getHolderIdentity());
    leading.cancel(true);
    Checks.until("it ends", () -> told.contains("ends"));
    // The client cuts the lease short and leaves its holder, as a merge patch of it says nothing of absent fields.
    Checks.until("the lease is given back", () -> lease.get().getSpec().getLeaseDurationSeconds() == 1);
    lease.delete();
  }
}
