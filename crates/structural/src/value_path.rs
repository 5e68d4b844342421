//! Path of a value during a walk over an object.

use holdfast_schema::FieldPath;

/// Path of a value; its text is built only for errors.
#[derive(Clone, Copy)]
pub(super) struct ValuePath<'p> {
    pub(super) above: Option<&'p ValuePath<'p>>,
    pub(super) step: Step<'p>,
}

#[derive(Clone, Copy)]
pub(super) enum Step<'p> {
    Root,
    Field(&'p str),
    /// A field that no schema names.
    Other(&'p str),
    Item(usize),
}

impl<'p> ValuePath<'p> {
    pub(super) const ROOT: ValuePath<'static> = ValuePath {
        above: None,
        step: Step::Root,
    };

    /// Returns a path directly below this one.
    pub(super) fn below(&'p self, step: Step<'p>) -> ValuePath<'p> {
        ValuePath {
            above: Some(self),
            step,
        }
    }

    /// Returns the path in the form of schema validation messages: there, fields that no schema names are fields like
    /// others.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) {
        if let Some(above) = self.above {
            above.write(out);
        }
        match self.step {
            Step::Root => {}
            Step::Field(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Other(name) => {
                out.push('.');
                out.push_str(name);
            }
            Step::Item(at) => out.push_str(&format!("[{at}]")),
        }
    }

    /// Returns the path, where `root` is that of the value at which the walk began: the fields that no schema names are
    /// keys there.
    pub(super) fn path(&self, root: &FieldPath) -> FieldPath {
        let Some(above) = self.above else { return root.clone() };
        let above = above.path(root);
        match self.step {
            Step::Root => above,
            Step::Field(name) => above.child(name),
            Step::Other(name) => above.key(name),
            Step::Item(at) => above.index(at),
        }
    }
}
