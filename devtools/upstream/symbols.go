package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"go/ast"
	"go/printer"
	"go/token"
	"strings"
)

// Symbol is a function, method, type, constant or variable at package level.
type Symbol struct {
	// Kind is "func", "type" or "value".
	Kind string `json:"kind"`
	// Hash identifies the text without comments, whatever its spaces are.
	Hash string `json:"hash"`
	// Text is the formatted text without comments, for symbols that the caller named.
	Text string `json:"text,omitempty"`
}

// addSymbols records the declarations of a file. A method is named "Type.Method".
func (inventory *Inventory) addSymbols(source *Source, file *File, wanted map[string]bool) {
	pkg := label(file.Package)
	add := func(name, kind string, node ast.Node) {
		key := pkg + "#" + name
		text := print(source.set, node)
		sum := sha256.Sum256([]byte(strings.Join(strings.Fields(text), " ")))
		symbol := Symbol{Kind: kind, Hash: hex.EncodeToString(sum[:8])}
		if wanted[key] {
			symbol.Text = text
		}
		// Files for other platforms declare a name again; the first one counts.
		if _, ok := inventory.Symbols[key]; !ok {
			inventory.Symbols[key] = symbol
		}
	}
	for _, decl := range file.Syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil && len(d.Recv.List) == 1 {
				name = lastName(d.Recv.List[0].Type) + "." + name
			}
			bare := *d
			bare.Doc = nil
			add(name, "func", &bare)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name.Name, "type", withoutComments(s))
				case *ast.ValueSpec:
					bare := *s
					bare.Doc, bare.Comment = nil, nil
					for _, name := range s.Names {
						add(name.Name, "value", &bare)
					}
				}
			}
		}
	}
}

// withoutComments returns a copy of a type without comments on itself, its fields and its methods.
func withoutComments(spec *ast.TypeSpec) *ast.TypeSpec {
	bare := *spec
	bare.Doc, bare.Comment = nil, nil
	strip := func(list *ast.FieldList) *ast.FieldList {
		fields := &ast.FieldList{Opening: list.Opening, Closing: list.Closing}
		for _, field := range list.List {
			f := *field
			f.Doc, f.Comment = nil, nil
			fields.List = append(fields.List, &f)
		}
		return fields
	}
	switch t := spec.Type.(type) {
	case *ast.StructType:
		bare.Type = &ast.StructType{Struct: t.Struct, Fields: strip(t.Fields)}
	case *ast.InterfaceType:
		bare.Type = &ast.InterfaceType{Interface: t.Interface, Methods: strip(t.Methods)}
	}
	return &bare
}

// print formats a node without comments and blank lines, so that neither changes the text.
func print(set *token.FileSet, node ast.Node) string {
	var text bytes.Buffer
	// Writing to a buffer cannot fail, and the node was parsed.
	_ = printer.Fprint(&text, set, node)
	var kept []string
	for _, line := range strings.Split(text.String(), "\n") {
		if strings.TrimSpace(line) != "" {
			kept = append(kept, strings.TrimRight(line, " \t"))
		}
	}
	return strings.Join(kept, "\n")
}
