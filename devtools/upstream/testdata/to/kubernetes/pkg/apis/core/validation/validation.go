package validation

// ValidateThing validates a thing.
func ValidateThing(name string, count int) []string {
	var errors []string
	if name == "" {
		errors = append(errors, "name is required")
	}
	if count > 10 {
		errors = append(errors, "count is too large")
	}
	return errors
}

// validateUnchanged has another comment.
func validateUnchanged(name string) bool {
	// A comment inside.

	return name != ""
}

func validateAdded() {}
