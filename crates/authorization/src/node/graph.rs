//! Graph of the objects that nodes may read.
//!
//! Edges lead from the object that is read towards the node: a Secret leads to the Pods that mount it, a Pod leads to
//! its node. Each object that the graph follows states its own edges as [`Links`].
//!
//! Each vertex stores its *reach*: the nodes to which a path leads, each with the number of successors through which it
//! does. A change of an edge updates the reach of all vertices behind it, so that a decision is one look-up, however
//! many Pods or volumes share an object.
//!
//! Invariant: memory is proportional to the edges and to the pairs of an object and a node that may read it.

use std::collections::HashMap;

use holdfast_value::SmolStr;

/// Type of the object of a vertex.
///
/// ```
/// use holdfast_authorization::node::{NodeGraph, VertexKind};
///
/// let graph = NodeGraph::default();
/// assert!(graph.is_empty());
/// assert!(!graph.leads_to(VertexKind::ConfigMap, "default", "settings", "n1"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VertexKind {
    /// ConfigMap.
    ConfigMap,
    /// Node.
    Node,
    /// PersistentVolume.
    PersistentVolume,
    /// PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// Pod.
    Pod,
    /// PodCertificateRequest.
    PodCertificateRequest,
    /// ResourceClaim.
    ResourceClaim,
    /// ResourceSlice.
    ResourceSlice,
    /// Secret.
    Secret,
    /// ServiceAccount.
    ServiceAccount,
    /// VolumeAttachment.
    VolumeAttachment,
}

/// Number of kinds of vertices.
const KINDS: usize = VertexKind::VolumeAttachment as usize + 1;

/// Identity of a vertex.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct VertexName {
    /// Type of the object.
    pub(super) kind: VertexKind,
    /// Namespace of the object; empty for cluster-scoped ones.
    pub(super) namespace: SmolStr,
    /// Name of the object.
    pub(super) name: SmolStr,
}

impl VertexName {
    /// Creates the identity of an object; `namespace` is empty for cluster-scoped ones.
    pub(super) fn new(kind: VertexKind, namespace: &str, name: &str) -> Self {
        Self {
            kind,
            namespace: SmolStr::new(namespace),
            name: SmolStr::new(name),
        }
    }
}

/// Edges of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Links {
    /// Successor of the object: the node of a Pod, or the claim of a volume.
    pub(super) target: VertexName,
    /// Predecessors of the object, such as the Secrets of a Pod. They may repeat.
    pub(super) sources: Vec<VertexName>,
}

/// Index of a vertex.
type VertexId = u32;

/// Graph of the objects that nodes may read.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Vertices by kind, namespace and name.
    ids: [HashMap<SmolStr, HashMap<SmolStr, VertexId>>; KINDS],
    vertices: Vec<Option<Vertex>>,
    /// Unused indices.
    free: Vec<VertexId>,
}

#[derive(Debug)]
struct Vertex {
    name: VertexName,
    /// Nodes that the vertex leads to, ordered by id, each with the number of successors that lead there.
    reach: Vec<(VertexId, u32)>,
    /// Successor according to the vertex's own object.
    target: Option<VertexId>,
    /// Predecessors according to the vertex's own object, ordered by id.
    sources: Box<[VertexId]>,
    /// Volumes whose target is this claim. Vertices that lead directly to nodes are not listed.
    volumes: Vec<VertexId>,
    /// Number of edges that other objects state.
    uses: u32,
}

impl Graph {
    /// Replaces the edges that the object states; `None` if it has none, for example because it was deleted.
    pub(super) fn set_links(&mut self, object: &VertexName, links: Option<&Links>) {
        let Some(links) = links else {
            if let Some(id) = self.find(object.kind, &object.namespace, &object.name) {
                self.unlink(id);
                self.remove_unused(id);
            }
            return;
        };
        let id = self.find_or_add(object);
        let target = self.find_or_add(&links.target);
        let mut sources: Vec<VertexId> = links.sources.iter().map(|source| self.find_or_add(source)).collect();
        sources.sort_unstable();
        sources.dedup();
        let is_current = self
            .vertex(id)
            .is_some_and(|vertex| vertex.target == Some(target) && *vertex.sources == *sources);
        if !is_current {
            // The new vertices are marked as used before the old edges are removed, so that none is removed in between.
            self.use_vertices(target, &sources);
            self.unlink(id);
            self.link(id, target, sources.into());
        }
    }

    /// True if a path leads from the object to the node.
    pub(super) fn leads_to(&self, kind: VertexKind, namespace: &str, name: &str, node: &str) -> bool {
        let Some(node) = self.find(VertexKind::Node, "", node) else {
            return false;
        };
        let start = self.find(kind, namespace, name).and_then(|start| self.vertex(start));
        start.is_some_and(|start| start.reach.binary_search_by_key(&node, |(node, _)| *node).is_ok())
    }

    /// Returns the number of vertices.
    pub(super) fn len(&self) -> usize {
        self.vertices.len() - self.free.len()
    }

    fn find(&self, kind: VertexKind, namespace: &str, name: &str) -> Option<VertexId> {
        self.ids.get(kind as usize)?.get(namespace)?.get(name).copied()
    }

    fn vertex(&self, id: VertexId) -> Option<&Vertex> {
        self.vertices.get(id as usize)?.as_ref()
    }

    fn vertex_mut(&mut self, id: VertexId) -> Option<&mut Vertex> {
        self.vertices.get_mut(id as usize)?.as_mut()
    }

    fn find_or_add(&mut self, name: &VertexName) -> VertexId {
        if let Some(id) = self.find(name.kind, &name.namespace, &name.name) {
            return id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.vertices.push(None);
            // 2^32 vertices do not fit into memory.
            (self.vertices.len() - 1) as VertexId
        });
        let vertex = Vertex {
            name: name.clone(),
            // A node leads to itself.
            reach: Vec::from_iter((name.kind == VertexKind::Node).then_some((id, 1))),
            target: None,
            sources: Box::default(),
            volumes: Vec::new(),
            uses: 0,
        };
        if let Some(slot) = self.vertices.get_mut(id as usize) {
            *slot = Some(vertex);
        }
        if let Some(namespaces) = self.ids.get_mut(name.kind as usize) {
            let names = namespaces.entry(name.namespace.clone()).or_default();
            names.insert(name.name.clone(), id);
        }
        id
    }

    fn use_vertices(&mut self, target: VertexId, sources: &[VertexId]) {
        for used in sources.iter().chain([&target]) {
            if let Some(vertex) = self.vertex_mut(*used) {
                vertex.uses += 1;
            }
        }
    }

    /// Adds the edges of the object `id`, whose vertices are already marked as used.
    fn link(&mut self, id: VertexId, target: VertexId, sources: Box<[VertexId]>) {
        let nodes = self.nodes_of(target);
        self.register_volume(id, target);
        if let Some(vertex) = self.vertex_mut(id) {
            vertex.target = Some(target);
            vertex.sources = sources;
        }
        for node in nodes {
            self.spread(id, node, Vertex::gain);
        }
    }

    /// Removes the edges of the object `id`, and the vertices that are then unused except itself.
    fn unlink(&mut self, id: VertexId) {
        let Some(target) = self.vertex_mut(id).and_then(|vertex| vertex.target.take()) else {
            return;
        };
        for node in self.nodes_of(target) {
            self.spread(id, node, Vertex::lose);
        }
        self.unregister_volume(id, target);
        let sources = self.vertex_mut(id).map(|vertex| std::mem::take(&mut vertex.sources));
        for used in sources.unwrap_or_default().iter().chain([&target]) {
            if let Some(vertex) = self.vertex_mut(*used) {
                vertex.uses = vertex.uses.saturating_sub(1);
            }
            self.remove_unused(*used);
        }
    }

    /// Changes the reach of the vertex by one path to `node`, and of all vertices behind it that this concerns.
    fn spread(&mut self, id: VertexId, node: VertexId, change: fn(&mut Vertex, VertexId) -> bool) {
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let Some(vertex) = self.vertex_mut(id) else { continue };
            if change(vertex, node) {
                pending.extend(vertex.sources.iter().chain(&vertex.volumes));
            }
        }
    }

    fn nodes_of(&self, id: VertexId) -> Vec<VertexId> {
        let reach = self.vertex(id).map_or(&[][..], |vertex| &vertex.reach);
        reach.iter().map(|(node, _)| *node).collect()
    }

    /// Notes that the reach of `volume` depends on the one of the claim. The reach of a node does not change.
    fn register_volume(&mut self, volume: VertexId, claim: VertexId) {
        if let Some(vertex) = self.vertex_mut(claim)
            && vertex.name.kind != VertexKind::Node
        {
            vertex.volumes.push(volume);
        }
    }

    fn unregister_volume(&mut self, volume: VertexId, claim: VertexId) {
        if let Some(vertex) = self.vertex_mut(claim)
            && let Some(at) = vertex.volumes.iter().position(|known| *known == volume)
        {
            vertex.volumes.swap_remove(at);
        }
    }

    /// Removes the vertex if it has no edge.
    fn remove_unused(&mut self, id: VertexId) {
        let Some(slot) = self.vertices.get_mut(id as usize) else {
            return;
        };
        let Some(vertex) = slot.take_if(|vertex| vertex.uses == 0 && vertex.target.is_none()) else {
            return;
        };
        self.free.push(id);
        let Some(namespaces) = self.ids.get_mut(vertex.name.kind as usize) else {
            return;
        };
        if let Some(names) = namespaces.get_mut(&vertex.name.namespace) {
            names.remove(&vertex.name.name);
            if names.is_empty() {
                namespaces.remove(&vertex.name.namespace);
            }
        }
    }
}

impl Vertex {
    /// Adds a path to `node`. Returns true if it is the first one.
    fn gain(&mut self, node: VertexId) -> bool {
        match self.reach.binary_search_by_key(&node, |(node, _)| *node) {
            Ok(at) => {
                if let Some((_, paths)) = self.reach.get_mut(at) {
                    *paths += 1;
                }
                false
            }
            Err(at) => {
                if self.reach.is_empty() {
                    // Most objects belong to one node.
                    self.reach.reserve_exact(1);
                }
                self.reach.insert(at, (node, 1));
                true
            }
        }
    }

    /// Removes a path to `node`. Returns true if it was the last one.
    fn lose(&mut self, node: VertexId) -> bool {
        let Ok(at) = self.reach.binary_search_by_key(&node, |(node, _)| *node) else {
            return false;
        };
        let Some((_, paths)) = self.reach.get_mut(at) else {
            return false;
        };
        *paths -= 1;
        if *paths > 0 {
            return false;
        }
        self.reach.remove(at);
        if self.reach.capacity() > 64 && self.reach.len() < self.reach.capacity() / 4 {
            self.reach.shrink_to(self.reach.len() * 2);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a vertex such as `pod:ns/name`, or `node:name`.
    fn vertex(text: &str) -> VertexName {
        let (kind, rest) = text.split_once(':').unwrap();
        let kind = match kind {
            "node" => VertexKind::Node,
            "pod" => VertexKind::Pod,
            "secret" => VertexKind::Secret,
            "pvc" => VertexKind::PersistentVolumeClaim,
            "pv" => VertexKind::PersistentVolume,
            other => panic!("{other}"),
        };
        let (namespace, name) = rest.split_once('/').unwrap_or(("", rest));
        VertexName::new(kind, namespace, name)
    }

    fn set(graph: &mut Graph, object: &str, target: &str, sources: &[&str]) {
        let links = Links {
            target: vertex(target),
            sources: sources.iter().map(|source| vertex(source)).collect(),
        };
        graph.set_links(&vertex(object), Some(&links));
    }

    fn leads(graph: &Graph, from: &str, node: &str) -> bool {
        let from = vertex(from);
        graph.leads_to(from.kind, &from.namespace, &from.name, node)
    }

    #[test]
    fn secret_of_a_pod_leads_to_its_node_only() {
        let mut graph = Graph::default();
        set(&mut graph, "pod:a/p", "node:n1", &["secret:a/s", "secret:a/s"]);
        assert!(leads(&graph, "secret:a/s", "n1") && leads(&graph, "pod:a/p", "n1"));
        assert!(!leads(&graph, "secret:a/s", "n2") && !leads(&graph, "secret:b/s", "n1"));
        assert!(leads(&graph, "node:n1", "n1"));
        graph.set_links(&vertex("pod:a/p"), None);
        assert!(!leads(&graph, "secret:a/s", "n1"));
        assert_eq!(graph.len(), 0);
    }

    #[test]
    fn shared_secret_leads_to_node_until_last_pod_goes() {
        let mut graph = Graph::default();
        set(&mut graph, "pod:a/p", "node:n1", &["secret:a/s"]);
        set(&mut graph, "pod:a/q", "node:n1", &["secret:a/s"]);
        set(&mut graph, "pod:a/r", "node:n2", &["secret:a/s"]);
        graph.set_links(&vertex("pod:a/p"), None);
        assert!(leads(&graph, "secret:a/s", "n1"));
        graph.set_links(&vertex("pod:a/q"), None);
        assert!(!leads(&graph, "secret:a/s", "n1") && leads(&graph, "secret:a/s", "n2"));
        graph.set_links(&vertex("pod:a/r"), None);
        assert_eq!(graph.len(), 0);
    }

    #[test]
    fn volume_follows_its_claim_in_any_order() {
        for volume_first in [true, false] {
            let mut graph = Graph::default();
            let mut steps: [(&str, &str, &[&str]); 2] = [
                ("pod:a/p", "node:n1", &["pvc:a/c"]),
                ("pv:v", "pvc:a/c", &["secret:x/s"]),
            ];
            if volume_first {
                steps.reverse();
            }
            for (object, target, sources) in steps {
                set(&mut graph, object, target, sources);
            }
            for start in ["pvc:a/c", "pv:v", "secret:x/s"] {
                assert!(leads(&graph, start, "n1"), "{start}");
            }
            graph.set_links(&vertex("pod:a/p"), None);
            assert!(!leads(&graph, "secret:x/s", "n1") && !leads(&graph, "pv:v", "n1"));
            set(&mut graph, "pod:a/p", "node:n2", &["pvc:a/c"]);
            assert!(leads(&graph, "secret:x/s", "n2"));
            graph.set_links(&vertex("pv:v"), None);
            assert!(!leads(&graph, "secret:x/s", "n2") && leads(&graph, "pvc:a/c", "n2"));
            graph.set_links(&vertex("pod:a/p"), None);
            assert_eq!(graph.len(), 0);
        }
    }

    #[test]
    fn update_moves_edges_without_losing_shared_vertices() {
        let mut graph = Graph::default();
        set(&mut graph, "pod:a/p", "node:n1", &["secret:a/s", "secret:a/t"]);
        set(&mut graph, "pod:a/p", "node:n1", &["secret:a/t", "secret:a/u"]);
        assert!(!leads(&graph, "secret:a/s", "n1"));
        assert!(leads(&graph, "secret:a/t", "n1") && leads(&graph, "secret:a/u", "n1"));
        set(&mut graph, "pod:a/p", "node:n2", &["secret:a/t", "secret:a/u"]);
        assert!(!leads(&graph, "secret:a/t", "n1") && leads(&graph, "secret:a/t", "n2"));
        assert_eq!(graph.len(), 4);
    }

    /// Compares the graph with a search over the stated edges, after each of many random changes.
    #[test]
    fn random_changes_agree_with_a_search() {
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut graph = Graph::default();
        let mut stated: HashMap<String, (String, Vec<String>)> = HashMap::new();
        for _ in 0..4000 {
            let is_pod = random(2) == 0;
            let object = match is_pod {
                true => format!("pod:a/{}", random(6)),
                false => format!("pv:{}", random(4)),
            };
            if random(4) == 0 {
                graph.set_links(&vertex(&object), None);
                stated.remove(&object);
            } else {
                let target = match is_pod {
                    true => format!("node:n{}", random(3)),
                    false => format!("pvc:a/{}", random(3)),
                };
                let kinds: &[&str] = if is_pod { &["secret", "pvc"] } else { &["secret"] };
                let count = random(4);
                let sources: Vec<String> = (0..count)
                    .map(|_| format!("{}:a/{}", kinds[random(kinds.len() as u64) as usize], random(3)))
                    .collect();
                let borrowed: Vec<&str> = sources.iter().map(String::as_str).collect();
                set(&mut graph, &object, &target, &borrowed);
                stated.insert(object, (target, sources));
            }
            let named = ["secret:a", "pvc:a"].map(|prefix| (0..3).map(move |at| format!("{prefix}/{at}")));
            let starts = named.into_iter().flatten().chain((0..4).map(|at| format!("pv:{at}")));
            for start in starts {
                for node in ["n0", "n1", "n2"] {
                    let expected = search(&stated, &start, &format!("node:{node}"));
                    assert_eq!(leads(&graph, &start, node), expected, "{start} {node} {stated:?}");
                }
            }
        }
        for object in stated.keys() {
            graph.set_links(&vertex(object), None);
        }
        assert_eq!(graph.len(), 0);
    }

    fn search(stated: &HashMap<String, (String, Vec<String>)>, start: &str, node: &str) -> bool {
        start == node
            || stated.iter().any(|(object, (target, sources))| {
                (object == start && search(stated, target, node))
                    || (sources.iter().any(|source| source == start) && search(stated, object, node))
            })
    }
}
