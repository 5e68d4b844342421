import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.reflect.TypeToken;
import io.kubernetes.client.custom.V1Patch;
import io.kubernetes.client.informer.ResourceEventHandler;
import io.kubernetes.client.informer.SharedIndexInformer;
import io.kubernetes.client.informer.SharedInformerFactory;
import io.kubernetes.client.informer.cache.Lister;
import io.kubernetes.client.openapi.ApiClient;
import io.kubernetes.client.openapi.ApiException;
import io.kubernetes.client.openapi.apis.AppsV1Api;
import io.kubernetes.client.openapi.apis.CoreV1Api;
import io.kubernetes.client.openapi.models.V1ConfigMap;
import io.kubernetes.client.openapi.models.V1ConfigMapList;
import io.kubernetes.client.openapi.models.V1Deployment;
import io.kubernetes.client.openapi.models.V1ObjectMeta;
import io.kubernetes.client.util.Config;
import io.kubernetes.client.util.PatchUtils;
import io.kubernetes.client.util.Watch;
import io.kubernetes.client.util.Yaml;
import io.kubernetes.client.util.generic.GenericKubernetesApi;
import io.kubernetes.client.util.generic.dynamic.DynamicKubernetesApi;
import io.kubernetes.client.util.generic.dynamic.DynamicKubernetesObject;
import io.kubernetes.client.util.generic.options.PatchOptions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;

/** The official client: typed, server-side apply, patches, watches, informers, dynamic. */
final class Official {
  private final ApiClient client;
  private final CoreV1Api core;

  Official(String kubeconfig) throws Exception {
    client = Config.fromConfig(kubeconfig);
    client.setReadTimeout(0);
    core = new CoreV1Api(client);
  }

  void run() throws Exception {
    Checks.check("official: typed objects", this::typed);
    Checks.check("official: pages", this::pages);
    Checks.check("official: patches", this::patches);
    Checks.check("official: server-side apply", this::apply);
    Checks.check("official: watch", this::watch);
    Checks.check("official: informer", this::informer);
    Checks.check("official: subresources", this::subresources);
    Checks.check("official: dynamic", this::dynamic);
  }

  private static V1ConfigMap configMap(String name, Map<String, String> data) {
    V1ObjectMeta meta = new V1ObjectMeta().name(name).namespace(Checks.NAMESPACE).labels(Map.of("suite", "java"));
    return new V1ConfigMap().apiVersion("v1").kind("ConfigMap").metadata(meta).data(data);
  }

  private static ApiException refused(int code, Callable<?> call) throws Exception {
    try {
      call.call();
    } catch (ApiException refusal) {
      Checks.same(code, refusal.getCode());
      return refusal;
    }
    throw new AssertionError("not refused with " + code);
  }

  private void typed() throws Exception {
    V1ConfigMap made = core.createNamespacedConfigMap(Checks.NAMESPACE, configMap("typed", Map.of("a", "1"))).execute();
    Checks.holds(made.getMetadata().getUid() != null && made.getMetadata().getCreationTimestamp() != null, made);
    refused(409, () -> core.createNamespacedConfigMap(Checks.NAMESPACE, configMap("typed", Map.of())).execute());
    V1ConfigMap changed = core.readNamespacedConfigMap("typed", Checks.NAMESPACE).execute().data(Map.of("a", "2"));
    core.replaceNamespacedConfigMap("typed", Checks.NAMESPACE, changed).execute();
    ApiException stale = refused(409, () -> core.replaceNamespacedConfigMap("typed", Checks.NAMESPACE, made).execute());
    Checks.holds(stale.getResponseBody().contains("the object has been modified"), stale.getResponseBody());
    V1ConfigMap dry = configMap("dry", Map.of());
    core.createNamespacedConfigMap(Checks.NAMESPACE, dry).dryRun("All").execute();
    refused(404, () -> core.readNamespacedConfigMap("dry", Checks.NAMESPACE).execute());
    Checks.same("Success", core.deleteNamespacedConfigMap("typed", Checks.NAMESPACE).execute().getStatus());
  }

  private void pages() throws Exception {
    for (int at = 0; at < 5; at++) {
      core.createNamespacedConfigMap(Checks.NAMESPACE, configMap("page-" + at, Map.of())).execute();
    }
    List<String> names = new ArrayList<>();
    String token = null;
    do {
      V1ConfigMapList page =
          core.listNamespacedConfigMap(Checks.NAMESPACE).labelSelector("suite=java").limit(2)._continue(token).execute();
      page.getItems().forEach(item -> names.add(item.getMetadata().getName()));
      token = page.getMetadata().getContinue();
    } while (token != null);
    Checks.same(List.of("page-0", "page-1", "page-2", "page-3", "page-4"), names);
    core.deleteCollectionNamespacedConfigMap(Checks.NAMESPACE).labelSelector("suite=java").execute();
    Checks.same(0, core.listNamespacedConfigMap(Checks.NAMESPACE).labelSelector("suite=java").execute().getItems().size());
  }

  private V1ConfigMap patch(String format, String patch, String manager, Boolean force) throws ApiException {
    PatchUtils.PatchCallFunc call =
        () ->
            core.patchNamespacedConfigMap("patched", Checks.NAMESPACE, new V1Patch(patch))
                .fieldManager(manager)
                .force(force)
                .buildCall(null);
    return PatchUtils.patch(V1ConfigMap.class, call, format, client);
  }

  private void patches() throws Exception {
    core.createNamespacedConfigMap(Checks.NAMESPACE, configMap("patched", Map.of("a", "1"))).execute();
    String json = "[{\"op\":\"replace\",\"path\":\"/data/a\",\"value\":\"2\"}]";
    Checks.same(Map.of("a", "2"), patch(V1Patch.PATCH_FORMAT_JSON_PATCH, json, null, null).getData());
    String merge = "{\"data\":{\"a\":null,\"b\":\"3\"}}";
    Checks.same(Map.of("b", "3"), patch(V1Patch.PATCH_FORMAT_JSON_MERGE_PATCH, merge, null, null).getData());
    String strategic = "{\"metadata\":{\"finalizers\":[\"example.com/java\"]}}";
    V1ConfigMap held = patch(V1Patch.PATCH_FORMAT_STRATEGIC_MERGE_PATCH, strategic, null, null);
    Checks.same(List.of("example.com/java"), held.getMetadata().getFinalizers());
    core.deleteNamespacedConfigMap("patched", Checks.NAMESPACE).execute();
    Checks.holds(core.readNamespacedConfigMap("patched", Checks.NAMESPACE).execute().getMetadata().getDeletionTimestamp() != null, held);
    patch(V1Patch.PATCH_FORMAT_JSON_MERGE_PATCH, "{\"metadata\":{\"finalizers\":null}}", null, null);
    refused(404, () -> core.readNamespacedConfigMap("patched", Checks.NAMESPACE).execute());
  }

  private void apply() throws Exception {
    String wish = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"patched\"},\"data\":{\"a\":\"%s\"}}";
    V1ConfigMap applied = patch(V1Patch.PATCH_FORMAT_APPLY_YAML, wish.formatted("1"), "alpha", null);
    Checks.same(Map.of("a", "1"), applied.getData());
    ApiException conflict =
        refused(409, () -> patch(V1Patch.PATCH_FORMAT_APPLY_YAML, wish.formatted("2"), "bravo", null));
    Checks.holds(conflict.getResponseBody().contains("conflict with \\\"alpha\\\": .data.a"), conflict.getResponseBody());
    V1ConfigMap forced = patch(V1Patch.PATCH_FORMAT_APPLY_YAML, wish.formatted("2"), "bravo", true);
    Checks.same("2", forced.getData().get("a"));
    core.deleteNamespacedConfigMap("patched", Checks.NAMESPACE).execute();
  }

  private void watch() throws Exception {
    String version = core.listNamespacedConfigMap(Checks.NAMESPACE).execute().getMetadata().getResourceVersion();
    core.createNamespacedConfigMap(Checks.NAMESPACE, configMap("seen", Map.of("n", "0"))).execute();
    core.replaceNamespacedConfigMap("seen", Checks.NAMESPACE, configMap("seen", Map.of("n", "1"))).execute();
    core.deleteNamespacedConfigMap("seen", Checks.NAMESPACE).execute();
    List<String> seen = new ArrayList<>();
    var call =
        core.listNamespacedConfigMap(Checks.NAMESPACE)
            .labelSelector("suite=java")
            .resourceVersion(version)
            .watch(true)
            .timeoutSeconds(30)
            .buildCall(null);
    try (Watch<V1ConfigMap> events = Watch.createWatch(client, call, new TypeToken<Watch.Response<V1ConfigMap>>() {}.getType())) {
      for (Watch.Response<V1ConfigMap> event : events) {
        seen.add(event.type + " " + event.object.getData().get("n"));
        if (event.type.equals("DELETED")) {
          break;
        }
      }
    }
    Checks.same(List.of("ADDED 0", "MODIFIED 1", "DELETED 1"), seen);
  }

  private void informer() throws Exception {
    var api = new GenericKubernetesApi<>(V1ConfigMap.class, V1ConfigMapList.class, "", "v1", "configmaps", client);
    SharedInformerFactory factory = new SharedInformerFactory(client);
    SharedIndexInformer<V1ConfigMap> informer = factory.sharedIndexInformerFor(api, V1ConfigMap.class, 0);
    List<String> seen = new CopyOnWriteArrayList<>();
    informer.addEventHandler(
        new ResourceEventHandler<V1ConfigMap>() {
          private void note(String what, V1ConfigMap object) {
            if (object.getMetadata().getName().startsWith("informed-")) {
              seen.add(what + " " + object.getMetadata().getName() + " " + object.getData().get("n"));
            }
          }

          @Override
          public void onAdd(V1ConfigMap object) {
            note("add", object);
          }

          @Override
          public void onUpdate(V1ConfigMap before, V1ConfigMap object) {
            note("update", object);
          }

          @Override
          public void onDelete(V1ConfigMap object, boolean unknown) {
            note("delete", object);
          }
        });
    core.createNamespacedConfigMap(Checks.NAMESPACE, configMap("informed-before", Map.of("n", "0"))).execute();
    factory.startAllRegisteredInformers();
    Checks.until("the informer has synced", informer::hasSynced);
    Checks.until("what was there is seen", () -> seen.size() == 1);
    core.createNamespacedConfigMap(Checks.NAMESPACE, configMap("informed-after", Map.of("n", "0"))).execute();
    Checks.until("what is made is seen", () -> seen.size() == 2);
    core.replaceNamespacedConfigMap("informed-after", Checks.NAMESPACE, configMap("informed-after", Map.of("n", "1"))).execute();
    Checks.until("the change is seen", () -> seen.size() == 3);
    core.deleteNamespacedConfigMap("informed-after", Checks.NAMESPACE).execute();
    Checks.until("the deletion is seen", () -> seen.size() == 4);
    Checks.same(
        List.of("add informed-before 0", "add informed-after 0", "update informed-after 1", "delete informed-after 1"), seen);
    Lister<V1ConfigMap> lister = new Lister<>(informer.getIndexer(), Checks.NAMESPACE);
    Checks.same("0", lister.get("informed-before").getData().get("n"));
    factory.stopAllRegisteredInformers();
    core.deleteNamespacedConfigMap("informed-before", Checks.NAMESPACE).execute();
  }

  private void subresources() throws Exception {
    AppsV1Api apps = new AppsV1Api(client);
    V1Deployment web =
        Yaml.loadAs(
            """
            apiVersion: apps/v1
            kind: Deployment
            metadata: {name: web}
            spec:
              replicas: 1
              selector: {matchLabels: {app: web}}
              template:
                metadata: {labels: {app: web}}
                spec:
                  containers: [{name: main, image: registry.example.com/web, resources: {limits: {memory: 1Gi}}}]
            """,
            V1Deployment.class);
    V1Deployment made = apps.createNamespacedDeployment(Checks.NAMESPACE, web).execute();
    Checks.same("25%", made.getSpec().getStrategy().getRollingUpdate().getMaxSurge().getStrValue());
    var scale = apps.readNamespacedDeploymentScale("web", Checks.NAMESPACE).execute();
    scale.getSpec().setReplicas(3);
    Checks.same(3, apps.replaceNamespacedDeploymentScale("web", Checks.NAMESPACE, scale).execute().getSpec().getReplicas());
    V1Deployment read = apps.readNamespacedDeployment("web", Checks.NAMESPACE).execute();
    read.getStatus().setReplicas(2);
    V1Deployment told = apps.replaceNamespacedDeploymentStatus("web", Checks.NAMESPACE, read).execute();
    Checks.same(2, told.getStatus().getReplicas());
    apps.deleteNamespacedDeployment("web", Checks.NAMESPACE).execute();
    Checks.until("the deployment is gone", () -> apps.listNamespacedDeployment(Checks.NAMESPACE).execute().getItems().isEmpty());
  }

  private void dynamic() throws Exception {
    var api = new DynamicKubernetesApi("", "v1", "secrets", client);
    JsonObject raw =
        JsonParser.parseString(
                "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"dyn\",\"namespace\":\"default\"},\"stringData\":{\"k\":\"v\"}}")
            .getAsJsonObject();
    DynamicKubernetesObject made = api.create(new DynamicKubernetesObject(raw)).throwsApiException().getObject();
    Checks.same("dg==", made.getRaw().getAsJsonObject("data").get("k").getAsString());
    PatchOptions options = new PatchOptions();
    options.setFieldManager("alpha");
    options.setForce(true);
    String wish = "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"dyn\"},\"data\":{\"k\":\"dw==\"}}";
    var applied =
        api.patch(Checks.NAMESPACE, "dyn", V1Patch.PATCH_FORMAT_APPLY_YAML, new V1Patch(wish), options).throwsApiException();
    Checks.same("dw==", applied.getObject().getRaw().getAsJsonObject("data").get("k").getAsString());
    Checks.same(404, api.get(Checks.NAMESPACE, "none").getHttpStatusCode());
    Checks.holds(api.delete(Checks.NAMESPACE, "dyn").isSuccess(), "deleted");
  }
}
