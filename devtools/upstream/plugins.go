package main

import "go/ast"

// Plugin is an admission plugin.
type Plugin struct {
	Name string `json:"name"`
	// Package declares the name.
	Package string `json:"package"`
	// Default reports whether the plugin runs without a flag.
	Default bool `json:"default"`
}

// Package with the list of admission plugins.
const pluginPackage = kubernetes + "/pkg/kubeapiserver/options"

// addPlugins records the ordered list of admission plugins, and which of them run by default.
func (inventory *Inventory) addPlugins(source *Source) {
	order, ok := source.constants[pluginPackage+".AllOrderedPlugins"]
	if !ok {
		return
	}
	on := map[string]bool{}
	for _, file := range source.files {
		if file.Package != pluginPackage {
			continue
		}
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			assigned, ok := node.(*ast.AssignStmt)
			if !ok || len(assigned.Lhs) != 1 || lastName(assigned.Lhs[0]) != "defaultOnPlugins" {
				return true
			}
			if call, ok := assigned.Rhs[0].(*ast.CallExpr); ok {
				for _, arg := range call.Args {
					if name, ok := source.text(file, arg); ok {
						on[name] = true
					}
				}
			}
			return false
		})
	}
	list, ok := order.value.(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, element := range list.Elts {
		name, ok := source.text(order.file, element)
		if !ok {
			inventory.addUnresolved("plugin", order.file)
			continue
		}
		plugin := Plugin{Name: name, Default: on[name]}
		if selector, ok := element.(*ast.SelectorExpr); ok {
			if local, ok := selector.X.(*ast.Ident); ok {
				plugin.Package = label(source.importPath(order.file, local.Name))
			}
		}
		inventory.Plugins = append(inventory.Plugins, plugin)
	}
}
