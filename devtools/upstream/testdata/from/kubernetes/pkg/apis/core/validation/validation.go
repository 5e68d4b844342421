package validation

// ValidateThing validates a thing.
func ValidateThing(name string, count int) []string {
	var errors []string
	if name == "" {
		errors = append(errors, "name is required")
	}
	return errors
}

// validateUnchanged has a comment.
func validateUnchanged(name string) bool {
	return name != "" // compared
}

func validateRemoved() {}
