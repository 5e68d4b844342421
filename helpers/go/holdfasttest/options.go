package holdfasttest

import "strings"

// Option configures a server.
type Option func(*options)

type options struct {
	binary      string
	controllers []string
	args        []string
}

func newOptions(list []Option) *options {
	made := &options{}
	for _, option := range list {
		option(made)
	}
	return made
}

// WithBinary sets the path of the binary.
func WithBinary(path string) Option {
	return func(o *options) { o.binary = path }
}

// WithControllers selects the controllers, as the flag --controllers does. Without names, no controllers run.
func WithControllers(names ...string) Option {
	return func(o *options) { o.controllers = append([]string{}, names...) }
}

// WithArgs adds flags of the server, such as --feature-gates=WatchList=false.
func WithArgs(args ...string) Option {
	return func(o *options) { o.args = append(o.args, args...) }
}

// flags returns the flags of the server. usual are the controllers if no option selects others.
func (o *options) flags(usual ...string) []string {
	controllers := o.controllers
	if controllers == nil {
		controllers = usual
	}
	flags := []string{"--testing-endpoints=true", "--controllers=" + strings.Join(controllers, ",")}
	return append(flags, o.args...)
}
