package options

import "github.com/spf13/pflag"

const prefix = "thing-"

// AddFlags adds the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Name, prefix+"name", o.Name, "Name of the thing.")
	fs.IntVar(&o.Count, "count", 1, "Number of things.")
	fs.BoolVar(&o.Old, "old", false, "Old things.")
}

func addComputed(fs *pflag.FlagSet, name string) {
	fs.String(name, "", "Flag with a computed name.")
}
