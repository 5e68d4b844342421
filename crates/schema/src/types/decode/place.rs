//! Text of a path, which is built only for errors.

use holdfast_value::pointer;
use smol_str::format_smolstr;

use super::{Step, ValuePath};
use crate::field_error::FieldPath;

impl ValuePath<'_> {
    /// Returns the path in the form of errors.
    pub(super) fn field_path(&self) -> FieldPath {
        let above = self.above.map(ValuePath::field_path).unwrap_or_default();
        match self.step {
            Step::Root => above,
            Step::Item(at) => above.index(at),
            Step::Field(_, name) => above.child(name),
            Step::Key(key) => above.key(key),
        }
    }

    pub(super) fn write_pointer(&self, out: &mut String) {
        if let Some(above) = self.above {
            above.write_pointer(out);
        }
        match self.step {
            Step::Root => {}
            Step::Item(at) => out.push_str(&format_smolstr!("/{at}")),
            Step::Field(_, name) | Step::Key(name) => {
                out.push('/');
                out.push_str(&pointer::escape(name));
            }
        }
    }

    pub(super) fn write_path(&self, out: &mut String) {
        if let Some(above) = self.above {
            above.write_path(out);
        }
        match self.step {
            Step::Root => {}
            Step::Item(at) => out.push_str(&format_smolstr!("[{at}]")),
            Step::Field(_, name) | Step::Key(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
        }
    }
}
