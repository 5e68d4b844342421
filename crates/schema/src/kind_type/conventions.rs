/// Conventions that clients expect of a kind, where built-in kinds and custom kinds differ in the reference.
///
/// Each difference is a field; [`Conventions::BUILT_IN`] and [`Conventions::DEFINED`] are the two rows.
#[derive(Debug, PartialEq, Eq)]
pub struct Conventions {
    /// True if an object states its kind and version itself: nothing is filled in from the address, and no other kind
    /// is converted to it.
    pub states_identity: bool,
    /// True if objects are validated in the version of the request and converted to the storage version afterwards;
    /// otherwise they are validated in the storage version.
    pub checked_as_sent: bool,
    /// True if objects in the store may lack the current form of their version.
    pub form_changes: bool,
    /// True if a write with an empty `managedFields` list resets the managed fields.
    pub empty_list_resets: bool,
    /// True if a PATCH may be a strategic merge patch.
    pub strategic_merge: bool,
    /// True if the meaning of a path comes from a table of routes; otherwise it comes from what the CRD serves.
    pub fixed_routes: bool,
    /// True if discovery lists verbs and subresources alphabetically.
    pub sorted_discovery: bool,
    /// True if items of lists include their kind and version.
    pub whole_items: bool,
    /// True if every chunk of a list has the field `continue`, even if it is empty.
    pub chunks_count_rest: bool,
    /// True if the numbers of a Scale may be missing or be other values, and the Scale is not converted.
    pub untyped_scale: bool,
    /// True if field selectors accept the older names of fields, and reject others with the messages of the kind.
    pub named_selectors: bool,
    /// True if one object may be requested as a list, which then fails because its content is not a list.
    pub listable_objects: bool,
}

impl Conventions {
    /// Kinds of the built-in table.
    pub const BUILT_IN: &'static Self = &Self {
        states_identity: false,
        checked_as_sent: false,
        form_changes: false,
        empty_list_resets: true,
        strategic_merge: true,
        fixed_routes: true,
        sorted_discovery: true,
        whole_items: false,
        chunks_count_rest: false,
        untyped_scale: false,
        named_selectors: true,
        listable_objects: false,
    };

    /// Kinds of CRDs.
    pub const DEFINED: &'static Self = &Self {
        states_identity: true,
        checked_as_sent: true,
        form_changes: true,
        empty_list_resets: false,
        strategic_merge: false,
        fixed_routes: false,
        sorted_discovery: false,
        whole_items: true,
        chunks_count_rest: true,
        untyped_scale: true,
        named_selectors: false,
        listable_objects: true,
    };
}
