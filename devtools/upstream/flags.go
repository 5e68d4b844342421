package main

import (
	"go/ast"
	"regexp"
	"strings"
)

// Flag is a command-line flag of kube-apiserver.
type Flag struct {
	// Package declares the flag.
	Package string `json:"package"`
	// Type is the type of the value, such as "String" or "Duration".
	Type string `json:"type"`
	// Default is the Go expression of the default; empty if the variable's initial value is the default.
	Default    string `json:"default"`
	Deprecated bool   `json:"deprecated"`
	Hidden     bool   `json:"hidden"`
}

// Packages whose flags kube-apiserver has.
var flagPackages = []string{
	"k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/pkg/controlplane/apiserver", "k8s.io/kubernetes/pkg/kubeapiserver",
	"k8s.io/kubernetes/plugin/pkg/admission", "k8s.io/apiserver/pkg/server/options", "k8s.io/apiserver/pkg/util", "k8s.io/apiserver/pkg/admission",
	"k8s.io/component-base/logs", "k8s.io/component-base/metrics", "k8s.io/component-base/featuregate",
	"k8s.io/component-base/compatibility", "k8s.io/component-base/cli", "k8s.io/component-base/version",
	"k8s.io/component-base/zpages", "k8s.io/component-base/tracing", "k8s.io/component-base/term",
}

var (
	flagMethod = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*)?VarP?$|^(Bool|String|Int|Int32|Int64|Uint|Float32|Float64|Duration|IP|IPNet|StringSlice|StringArray|IntSlice|StringToString|StringToInt)P?$`)
	flagName   = regexp.MustCompile(`^[a-z][a-zA-Z0-9_-]*$`)
)

// addFlags records the calls that declare a flag.
func (inventory *Inventory) addFlags(source *Source, file *File) {
	if !hasPrefix(file.Package, flagPackages) {
		return
	}
	mark := func(name string, change func(*Flag)) {
		flag := inventory.Flags[name]
		change(&flag)
		inventory.Flags[name] = flag
	}
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch name := method.Sel.Name; {
		case name == "MarkDeprecated" && len(call.Args) == 2:
			if flag, ok := source.text(file, call.Args[0]); ok {
				mark(flag, func(f *Flag) { f.Deprecated = true })
			}
		case name == "MarkHidden" && len(call.Args) == 1:
			if flag, ok := source.text(file, call.Args[0]); ok {
				mark(flag, func(f *Flag) { f.Hidden = true })
			}
		case flagMethod.MatchString(name):
			inventory.addFlag(source, file, call, name, mark)
		}
		return true
	})
}

func (inventory *Inventory) addFlag(source *Source, file *File, call *ast.CallExpr, method string, mark func(string, func(*Flag))) {
	// Forms: Var(value, name, usage), TypeVar(pointer, name, default, usage), Type(name, default, usage); P adds a letter.
	pointer := strings.Contains(method, "Var")
	kind := strings.TrimSuffix(strings.TrimSuffix(method, "P"), "Var")
	at, count := 0, 3
	if pointer {
		at++
	}
	if pointer && kind != "" {
		count++
	}
	if strings.HasSuffix(method, "P") && method != "IP" {
		count++
	}
	if len(call.Args) != count {
		return
	}
	name, ok := source.text(file, call.Args[at])
	if !ok {
		inventory.addUnresolved("flag", file)
		return
	}
	if !flagName.MatchString(name) {
		return
	}
	value := ""
	if kind != "" {
		value = print(source.set, call.Args[count-2])
	}
	if !isLiteral(value) {
		// The default is a field of the options.
		value = ""
	}
	mark(name, func(f *Flag) {
		f.Package, f.Type, f.Default = label(file.Package), kind, value
	})
}

// isLiteral reports whether the text of an expression is a value rather than the name of a variable.
func isLiteral(text string) bool {
	return text == "true" || text == "false" || text != "" && strings.ContainsAny(text[:1], `0123456789"`)
}

func hasPrefix(pkg string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if pkg == prefix || strings.HasPrefix(pkg, prefix+"/") {
			return true
		}
	}
	return false
}
