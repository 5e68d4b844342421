package thing

type strategy struct{}

// Validate is a method.
func (s *strategy) Validate(name string) []string { return nil }
