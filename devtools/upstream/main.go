// Command upstream reads unpacked Go modules of Kubernetes and prints an inventory as JSON: declared symbols, fields of
// API types, feature gates, flags, metrics and admission plugins. `cargo xtask upstream` compares two inventories.
//
// Usage: upstream [-text FILE] MODULE=FOLDER...
//
// The source is only parsed, never compiled, so dependencies of the modules need not be present.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Inventory lists what one release declares.
type Inventory struct {
	// Symbols maps "package#Name" to the symbol. Packages of k8s.io/kubernetes are relative to that module.
	Symbols map[string]Symbol `json:"symbols"`
	// Types maps "package#Name" to a struct with JSON fields.
	Types map[string]Type `json:"types"`
	// Gates maps a feature gate to its stages.
	Gates map[string]Gate `json:"gates"`
	// Flags maps a command-line flag to its declaration.
	Flags map[string]Flag `json:"flags"`
	// Metrics maps the full name of a metric to its declaration.
	Metrics map[string]Metric `json:"metrics"`
	// Plugins lists admission plugins in the order in which they run.
	Plugins []Plugin `json:"plugins"`
	// Unresolved maps a kind of declaration to the packages where names are computed at run time.
	Unresolved map[string][]string `json:"unresolved"`
}

func main() {
	texts := flag.String("text", "", "file with names of symbols, one a line, whose text the inventory includes")
	flag.Parse()
	inventory, err := run(flag.Args(), *texts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(inventory); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(modules []string, texts string) (*Inventory, error) {
	if len(modules) == 0 {
		return nil, fmt.Errorf("name at least one MODULE=FOLDER")
	}
	wanted, err := readNames(texts)
	if err != nil {
		return nil, err
	}
	source := newSource()
	for _, module := range modules {
		path, folder, found := strings.Cut(module, "=")
		if !found {
			return nil, fmt.Errorf("%q is not MODULE=FOLDER", module)
		}
		if err := source.addModule(path, folder); err != nil {
			return nil, err
		}
	}
	source.readConstants()
	inventory := &Inventory{
		Symbols:    map[string]Symbol{},
		Types:      map[string]Type{},
		Gates:      map[string]Gate{},
		Flags:      map[string]Flag{},
		Metrics:    map[string]Metric{},
		Plugins:    []Plugin{},
		Unresolved: map[string][]string{},
	}
	for _, file := range source.files {
		inventory.addSymbols(source, file, wanted)
		inventory.addTypes(source, file)
		inventory.addGates(source, file)
		inventory.addFlags(source, file)
		inventory.addMetrics(source, file)
	}
	inventory.addPlugins(source)
	return inventory, nil
}

// addUnresolved records that a file declares something whose name is computed at run time.
func (inventory *Inventory) addUnresolved(kind string, file *File) {
	pkg := label(file.Package)
	if !slices.Contains(inventory.Unresolved[kind], pkg) {
		inventory.Unresolved[kind] = append(inventory.Unresolved[kind], pkg)
	}
}

// readNames returns the lines of a file as a set; the empty path is an empty set.
func readNames(path string) (map[string]bool, error) {
	names := map[string]bool{}
	if path == "" {
		return names, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		names[lines.Text()] = true
	}
	return names, lines.Err()
}
