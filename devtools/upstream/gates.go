package main

import "go/ast"

// Gate is a feature gate.
type Gate struct {
	// Package declares the gate.
	Package string  `json:"package"`
	Stages  []Stage `json:"stages"`
}

// Stage is the state of a gate from a version on.
type Stage struct {
	Version string `json:"version"`
	Default bool   `json:"default"`
	Stage   string `json:"stage"`
	Locked  bool   `json:"locked"`
	// Minimum is the minimum compatibility version with which the stage applies; empty if any does.
	Minimum string `json:"minimum"`
}

// addGates records the gates of literals of the type map[Feature]VersionedSpecs.
func (inventory *Inventory) addGates(source *Source, file *File) {
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		table, ok := literal.Type.(*ast.MapType)
		if !ok || lastName(table.Key) != "Feature" || lastName(table.Value) != "VersionedSpecs" {
			return true
		}
		for _, element := range literal.Elts {
			entry, ok := element.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			stages, ok := entry.Value.(*ast.CompositeLit)
			if !ok {
				continue
			}
			name, ok := source.text(file, entry.Key)
			if !ok {
				name = lastName(entry.Key)
			}
			if name == "" {
				inventory.addUnresolved("gate", file)
				continue
			}
			gate := Gate{Package: label(file.Package), Stages: []Stage{}}
			for _, spec := range stages.Elts {
				gate.Stages = append(gate.Stages, stage(source, file, spec))
			}
			inventory.Gates[name] = gate
		}
		return false
	})
}

func stage(source *Source, file *File, expr ast.Expr) Stage {
	found := Stage{}
	spec, ok := expr.(*ast.CompositeLit)
	if !ok {
		return found
	}
	for _, element := range spec.Elts {
		entry, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch lastName(entry.Key) {
		case "Version":
			found.Version = version(source, file, entry.Value)
		case "MinCompatibilityVersion":
			found.Minimum = version(source, file, entry.Value)
		case "Default":
			found.Default = lastName(entry.Value) == "true"
		case "LockToDefault":
			found.Locked = lastName(entry.Value) == "true"
		case "PreRelease":
			found.Stage = lastName(entry.Value)
		}
	}
	return found
}

// version returns the text of version.MustParse("1.37").
func version(source *Source, file *File, expr ast.Expr) string {
	call, ok := expr.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return ""
	}
	text, _ := source.text(file, call.Args[0])
	return text
}
