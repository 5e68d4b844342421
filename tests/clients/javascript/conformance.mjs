// The official JavaScript client against a server: objects, Server-Side Apply, patches, watches, the informer, and custom objects. The
// arguments are a kubeconfig and the package of the client; the server's address comes in HOLDFAST_SERVER. It prints the name of each check
// that held.

import assert from 'node:assert/strict';

const k8s = await import(process.argv[3]);

const NAMESPACE = 'default';
const PATIENCE = 60_000;

const kubeconfig = new k8s.KubeConfig();
kubeconfig.loadFromFile(process.argv[2]);
kubeconfig.clusters = kubeconfig.clusters.map((cluster) => ({ ...cluster, server: process.env.HOLDFAST_SERVER }));
const core = kubeconfig.makeApiClient(k8s.CoreV1Api);

const configMap = (name, data) => ({ metadata: { name, labels: { suite: 'javascript' } }, data });

async function until(what, ask) {
  const deadline = Date.now() + PATIENCE;
  while (!(await ask())) {
    assert.ok(Date.now() < deadline, `not in time: ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

async function objects() {
  const made = await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap('one', { a: '1' }) });
  assert.ok(made.metadata.uid);
  await assert.rejects(
    core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap('one', {}) }),
    (refusal) => refusal.code === 409 && /AlreadyExists/.test(refusal.body),
  );
  made.data = { a: '2' };
  const replaced = await core.replaceNamespacedConfigMap({ name: 'one', namespace: NAMESPACE, body: made });
  assert.notEqual(replaced.metadata.resourceVersion, made.metadata.resourceVersion);
  const list = await core.listNamespacedConfigMap({ namespace: NAMESPACE, labelSelector: 'suite=javascript' });
  assert.deepEqual(list.items.map((item) => item.metadata.name), ['one']);
  await core.deleteNamespacedConfigMap({ name: 'one', namespace: NAMESPACE });
  await assert.rejects(core.readNamespacedConfigMap({ name: 'one', namespace: NAMESPACE }), (refusal) => refusal.code === 404);
}

async function apply() {
  const generic = k8s.KubernetesObjectApi.makeApiClient(kubeconfig);
  const wish = (value) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied', namespace: NAMESPACE }, data: { value } });
  const patch = (value, manager, force) =>
    generic.patch(wish(value), undefined, undefined, manager, force, k8s.PatchStrategy.ServerSideApply);
  await patch('a', 'alpha');
  await assert.rejects(patch('b', 'bravo'), (refusal) => refusal.code === 409 && /conflict with \\+"alpha\\+": \.data\.value/.test(refusal.body));
  const forced = await patch('b', 'bravo', true);
  assert.equal(forced.data.value, 'b');
  assert.deepEqual(forced.metadata.managedFields.map((entry) => entry.manager), ['bravo']);
  await generic.delete(wish('b'));
}

async function patches() {
  await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap('patched', { a: '1' }) });
  const one = { name: 'patched', namespace: NAMESPACE };
  const as = (strategy) => k8s.setHeaderOptions('Content-Type', strategy);
  const added = [{ op: 'add', path: '/data/b', value: '2' }];
  const json = await core.patchNamespacedConfigMap({ ...one, body: added }, as(k8s.PatchStrategy.JsonPatch));
  assert.deepEqual(json.data, { a: '1', b: '2' });
  const merge = await core.patchNamespacedConfigMap({ ...one, body: { data: { a: null } } }, as(k8s.PatchStrategy.MergePatch));
  assert.deepEqual(merge.data, { b: '2' });
  const held = { metadata: { finalizers: ['example.com/javascript'] } };
  const strategic = await core.patchNamespacedConfigMap({ ...one, body: held }, as(k8s.PatchStrategy.StrategicMergePatch));
  assert.deepEqual(strategic.metadata.finalizers, ['example.com/javascript']);
  await core.deleteNamespacedConfigMap(one);
  assert.ok((await core.readNamespacedConfigMap(one)).metadata.deletionTimestamp);
  const freed = { metadata: { finalizers: null } };
  await core.patchNamespacedConfigMap({ ...one, body: freed }, as(k8s.PatchStrategy.MergePatch));
  await assert.rejects(core.readNamespacedConfigMap(one), (refusal) => refusal.code === 404);
}

async function watches() {
  const { metadata } = await core.listNamespacedConfigMap({ namespace: NAMESPACE });
  const seen = [];
  let ended = false;
  const watch = new k8s.Watch(kubeconfig);
  const query = { resourceVersion: metadata.resourceVersion, labelSelector: 'suite=javascript', allowWatchBookmarks: true };
  const path = `/api/v1/namespaces/${NAMESPACE}/configmaps`;
  const told = (type, object) => type === 'BOOKMARK' || seen.push(`${type} ${object.data.a}`);
  const controller = await watch.watch(path, query, told, () => { ended = true; });
  await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap('seen', { a: '1' }) });
  await core.replaceNamespacedConfigMap({ name: 'seen', namespace: NAMESPACE, body: configMap('seen', { a: '2' }) });
  await core.deleteNamespacedConfigMap({ name: 'seen', namespace: NAMESPACE });
  await until('three events', () => seen.length === 3);
  assert.deepEqual(seen, ['ADDED 1', 'MODIFIED 2', 'DELETED 2']);
  controller.abort();
  await until('the watch has ended', () => ended);

  // A version that nobody has any more.
  let cause;
  await watch.watch(path, { resourceVersion: '1' }, (type, object) => { cause ??= `${type} ${object.code}`; }, (error) => { cause ??= error; });
  await until('an old version is told of', () => cause !== undefined);
  assert.match(String(cause), /ERROR 410|Gone|410/);
}

async function informer() {
  const list = () => core.listNamespacedConfigMap({ namespace: NAMESPACE, labelSelector: 'suite=javascript' });
  const informer = k8s.makeInformer(kubeconfig, `/api/v1/namespaces/${NAMESPACE}/configmaps`, list, 'suite=javascript');
  const seen = [];
  for (const verb of ['add', 'update', 'delete']) {
    informer.on(verb, (object) => seen.push(`${verb} ${object.metadata.name} ${object.data.a}`));
  }
  await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap('before', { a: '1' }) });
  await informer.start();
  await until('what was there is seen', () => seen.length === 1);
  await core.createNamespacedConfigMap({ namespace: NAMESPACE, body: configMap('after', { a: '1' }) });
  await until('what is made is seen', () => seen.length === 2);
  const after = await core.readNamespacedConfigMap({ name: 'after', namespace: NAMESPACE });
  after.data.a = '2';
  await core.replaceNamespacedConfigMap({ name: 'after', namespace: NAMESPACE, body: after });
  await until('the change is seen', () => seen.length === 3);
  await core.deleteNamespacedConfigMap({ name: 'after', namespace: NAMESPACE });
  await until('the deletion is seen', () => seen.length === 4);
  assert.deepEqual(seen, ['add before 1', 'add after 1', 'update after 2', 'delete after 2']);
  assert.deepEqual(informer.list(NAMESPACE).map((object) => object.metadata.name), ['before']);
  await informer.stop();
  await core.deleteNamespacedConfigMap({ name: 'before', namespace: NAMESPACE });
}

const sensors = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'sensors.javascript.example.com' },
  spec: {
    group: 'javascript.example.com',
    scope: 'Namespaced',
    names: { plural: 'sensors', kind: 'Sensor' },
    versions: [{
      name: 'v1',
      served: true,
      storage: true,
      schema: {
        openAPIV3Schema: {
          type: 'object',
          properties: {
            spec: {
              type: 'object',
              required: ['place'],
              properties: { place: { type: 'string', _enum: ['roof', 'door'] }, replicas: { type: 'integer', _default: 1 } },
            },
            status: { type: 'object', properties: { replicas: { type: 'integer' } } },
          },
        },
      },
      subresources: { status: {}, scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } },
    }],
  },
};

async function customObjects() {
  const definitions = kubeconfig.makeApiClient(k8s.ApiextensionsV1Api);
  const definition = { name: sensors.metadata.name };
  await definitions.createCustomResourceDefinition({ body: sensors });
  await until('the definition is established', async () => {
    const { status } = await definitions.readCustomResourceDefinition(definition);
    return status?.conditions?.some((condition) => condition.type === 'Established' && condition.status === 'True');
  });

  const objects = kubeconfig.makeApiClient(k8s.CustomObjectsApi);
  const place = { group: 'javascript.example.com', version: 'v1', namespace: NAMESPACE, plural: 'sensors' };
  const sensor = (name, at) => ({
    apiVersion: 'javascript.example.com/v1', kind: 'Sensor', metadata: { name, labels: { suite: 'javascript' } }, spec: { place: at },
  });
  const list = () => objects.listNamespacedCustomObject({ ...place, labelSelector: 'suite=javascript' });
  const path = `/apis/javascript.example.com/v1/namespaces/${NAMESPACE}/sensors`;
  const informer = k8s.makeInformer(kubeconfig, path, list, 'suite=javascript');
  const seen = [];
  for (const verb of ['add', 'update', 'delete']) {
    informer.on(verb, (object) => seen.push(`${verb} ${object.metadata.name} ${object.spec.replicas}`));
  }
  await informer.start();

  const made = await objects.createNamespacedCustomObject({ ...place, body: sensor('one', 'roof') });
  assert.deepEqual(made.spec, { place: 'roof', replicas: 1 });
  await assert.rejects(
    objects.createNamespacedCustomObject({ ...place, body: sensor('two', 'cellar') }),
    (refusal) => refusal.code === 422 && /Unsupported value: \\+"cellar\\+": supported values/.test(refusal.body),
  );
  const merge = k8s.setHeaderOptions('Content-Type', k8s.PatchStrategy.MergePatch);
  const one = { ...place, name: 'one' };
  const scale = await objects.patchNamespacedCustomObjectScale({ ...one, body: { spec: { replicas: 3 } } }, merge);
  assert.equal(scale.spec.replicas, 3);
  const told = { spec: { place: 'door' }, status: { replicas: 3 } };
  const status = await objects.patchNamespacedCustomObjectStatus({ ...one, body: told }, merge);
  assert.deepEqual([status.spec.place, status.status], ['roof', { replicas: 3 }]);
  const moved = await objects.patchNamespacedCustomObject({ ...one, body: { spec: { place: 'door' } } }, merge);
  assert.equal(moved.metadata.generation, 3);
  await assert.rejects(
    objects.replaceNamespacedCustomObject({ ...one, body: made }),
    (refusal) => refusal.code === 409 && /the object has been modified/.test(refusal.body),
  );
  assert.deepEqual((await list()).items.map((item) => item.metadata.name), ['one']);
  await objects.deleteNamespacedCustomObject(one);
  await until('the deletion is seen', () => seen.length === 5);
  assert.deepEqual(seen, ['add one 1', 'update one 3', 'update one 3', 'update one 3', 'delete one 3']);
  await informer.stop();

  // The generic client finds the path of a kind by discovery.
  const generic = k8s.KubernetesObjectApi.makeApiClient(kubeconfig);
  const wish = { ...sensor('applied', 'roof'), metadata: { name: 'applied', namespace: NAMESPACE } };
  const applied = await generic.patch(wish, undefined, undefined, 'alpha', false, k8s.PatchStrategy.ServerSideApply);
  assert.equal(applied.spec.replicas, 1);
  await definitions.deleteCustomResourceDefinition(definition);
  await until('the definition is gone', () =>
    definitions.readCustomResourceDefinition(definition).then(() => false, (refusal) => refusal.code === 404));
  // The server follows the definition, maybe a moment behind.
  await until('its objects are not served', () => list().then(() => false, (refusal) => refusal.code === 404));
}

async function access() {
  const authorization = kubeconfig.makeApiClient(k8s.AuthorizationV1Api);
  const review = await authorization.createSelfSubjectAccessReview({
    body: { spec: { resourceAttributes: { namespace: NAMESPACE, verb: 'create', resource: 'pods' } } },
  });
  assert.equal(review.status.allowed, true);
}

const checks = [objects, apply, patches, watches, informer, customObjects, access];
for (const check of checks) {
  await check();
  console.log('ok', check.name);
}
console.log('all', checks.length, 'held');
process.exit(0);
