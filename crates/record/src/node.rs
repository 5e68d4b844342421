use holdfast_schema::types::TypeId;

/// Object of a known type, read from its text.
#[derive(Debug)]
pub struct Record<'t> {
    pub(crate) text: &'t str,
    pub(crate) buffers: &'t RecordBuffers,
    pub(crate) root: Node,
}

/// Memory of a record. It can be used for one record after another.
#[derive(Debug, Default)]
pub struct RecordBuffers {
    /// Nodes within others: those of one container are contiguous.
    pub(crate) nodes: Vec<Node>,
    /// Nodes of the containers that are being read.
    pub(crate) open: Vec<Node>,
    /// Texts that had escapes, without them.
    pub(crate) unescaped: String,
}

impl RecordBuffers {
    /// Frees buffers of more than `max_kept` bytes.
    pub fn shrink(&mut self, max_kept: usize) {
        let max_nodes = max_kept / size_of::<Node>();
        for nodes in [&mut self.nodes, &mut self.open] {
            if nodes.capacity() > max_nodes {
                *nodes = Vec::new();
            }
        }
        if self.unescaped.capacity() > max_kept {
            self.unescaped = String::new();
        }
    }
}

/// Value in a record.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Form of the value.
    pub kind: Kind,
    /// True if the text of the value had escapes.
    pub(crate) was_escaped: bool,
    /// Slot of the value in its struct; zero in other containers.
    pub slot: u16,
    /// Type of a struct or of free JSON.
    pub of: TypeId,
    /// Start of the range of a text in its buffer, or of the nodes of a container.
    pub(crate) start: u32,
    /// End of that range.
    pub(crate) end: u32,
    /// Presence of the fields of a struct, by slot; value of a number or of a flag.
    pub(crate) bits: u64,
}

/// Form of a value in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    String,
    /// Whole number.
    Int,
    /// `true` or `false`.
    Bool,
    /// Number with a fraction.
    Double,
    /// Text that represents bytes in base64.
    Base64,
    /// Text of a quantity.
    Quantity,
    /// Number where a text is possible.
    IntOrString,
    /// Text where a number is possible.
    StringOrInt,
    /// Text of a time with whole seconds.
    Time,
    /// Text of a time with fractions of seconds.
    MicroTime,
    /// Text of a field set, as it was stored.
    FieldsV1,
    /// Text of JSON that has no slots.
    Free,
    /// Struct, with the fields that are set in the order of their slots.
    Struct,
    /// List of items.
    List,
    /// Map: keys and values in turn, sorted by key.
    Map,
}

impl Node {
    /// True if a struct has one of these fields; each slot has one bit.
    #[inline]
    pub fn has(&self, slots: u64) -> bool {
        self.bits & slots != 0
    }

    /// Returns the value of a [`Kind::Int`] or a [`Kind::IntOrString`].
    #[inline]
    pub fn int(&self) -> i64 {
        self.bits.cast_signed()
    }

    /// Returns the value of a [`Kind::Bool`].
    #[inline]
    pub fn flag(&self) -> bool {
        self.bits != 0
    }

    /// Returns the value of a [`Kind::Double`].
    #[inline]
    pub fn double(&self) -> f64 {
        f64::from_bits(self.bits)
    }
}

impl<'t> Record<'t> {
    /// Returns the object.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Returns the text of a node that has one, without escapes.
    #[inline]
    pub fn text(&self, node: &Node) -> &'t str {
        let buffer = match node.was_escaped {
            true => self.buffers.unescaped.as_str(),
            false => self.text,
        };
        buffer.get(node.start as usize..node.end as usize).unwrap_or_default()
    }

    /// Returns the nodes of a container: the fields of a struct, the items of a list, keys and values of a map in turn.
    #[inline]
    pub fn nodes(&self, node: &Node) -> &'t [Node] {
        self.buffers
            .nodes
            .get(node.start as usize..node.end as usize)
            .unwrap_or_default()
    }

    /// Returns the field of a struct in a slot, if it is set.
    #[inline]
    pub fn field(&self, node: &Node, slot: u16) -> Option<&'t Node> {
        let bit = 1_u64.checked_shl(u32::from(slot))?;
        if node.bits & bit == 0 {
            return None;
        }
        let before = (node.bits & (bit - 1)).count_ones();
        self.buffers.nodes.get((node.start + before) as usize)
    }

    /// Returns the number of values in the record.
    pub fn node_count(&self) -> usize {
        self.buffers.nodes.len() + 1
    }
}
