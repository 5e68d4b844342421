package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Kubernetes is the module whose packages are named by their path inside the module.
const kubernetes = "k8s.io/kubernetes"

// File is one parsed file.
type File struct {
	// Package is the import path.
	Package string
	Syntax  *ast.File
	// imports maps the local name of an import to its path.
	imports map[string]string
}

// Source is all parsed files of the modules.
type Source struct {
	set   *token.FileSet
	files []*File
	// names maps an import path to the name of the package.
	names map[string]string
	// constants maps "import path.Name" to its declaration.
	constants map[string]constant
}

// constant is a package-level constant or variable with an initial value.
type constant struct {
	file  *File
	value ast.Expr
}

func newSource() *Source {
	return &Source{set: token.NewFileSet(), names: map[string]string{}, constants: map[string]constant{}}
}

// Folders of k8s.io/kubernetes without code of the API server.
var skippedFolders = map[string]bool{
	"testdata": true, "vendor": true, "third_party": true, "test": true, "hack": true, "cluster": true, "staging": true,
	"build": true, "docs": true, "testing": true,
}

// addModule parses the files of a module, except for tests.
func (s *Source) addModule(module, folder string) error {
	return filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != folder && (skippedFolders[base] || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go") {
			return nil
		}
		relative, err := filepath.Rel(folder, filepath.Dir(name))
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(s.set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		file := &File{Package: path.Join(module, filepath.ToSlash(relative)), Syntax: syntax}
		s.files = append(s.files, file)
		s.names[file.Package] = syntax.Name.Name
		return nil
	})
}

// label returns the name of a package in the inventory.
func label(pkg string) string {
	return strings.TrimPrefix(pkg, kubernetes+"/")
}

// readConstants records package-level constants and variables, so that names given by them can be resolved.
func (s *Source) readConstants() {
	for _, file := range s.files {
		for _, decl := range file.Syntax.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok || (general.Tok != token.CONST && general.Tok != token.VAR) {
				continue
			}
			for _, spec := range general.Specs {
				values := spec.(*ast.ValueSpec)
				for i, name := range values.Names {
					if i < len(values.Values) {
						s.constants[file.Package+"."+name.Name] = constant{file, values.Values[i]}
					}
				}
			}
		}
	}
}

// importPath returns the path that a local name of an import stands for, or the empty string.
func (s *Source) importPath(file *File, local string) string {
	if file.imports == nil {
		file.imports = map[string]string{}
		for _, spec := range file.Syntax.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			name := s.names[target]
			if name == "" {
				name = path.Base(target)
			}
			if spec.Name != nil {
				name = spec.Name.Name
			}
			file.imports[name] = target
		}
	}
	return file.imports[local]
}

// text returns the value of a constant string expression. The depth bounds circles of declarations.
func (s *Source) text(file *File, expr ast.Expr) (string, bool) {
	return s.textWithin(file, expr, 16)
}

func (s *Source) textWithin(file *File, expr ast.Expr, depth int) (string, bool) {
	if depth == 0 {
		return "", false
	}
	switch e := expr.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		value, err := strconv.Unquote(e.Value)
		return value, err == nil
	case *ast.ParenExpr:
		return s.textWithin(file, e.X, depth-1)
	case *ast.BinaryExpr:
		left, ok := s.textWithin(file, e.X, depth-1)
		if !ok || e.Op != token.ADD {
			return "", false
		}
		right, ok := s.textWithin(file, e.Y, depth-1)
		return left + right, ok
	case *ast.CallExpr:
		// A conversion such as string(features.Name), or the join of the parts of a metric's name.
		if len(e.Args) == 1 && isTypeName(e.Fun) {
			return s.textWithin(file, e.Args[0], depth-1)
		}
		if calledName(e) == "BuildFQName" && len(e.Args) == 3 {
			var parts []string
			for _, arg := range e.Args {
				part, ok := s.textWithin(file, arg, depth-1)
				if !ok {
					return "", false
				}
				if part != "" {
					parts = append(parts, part)
				}
			}
			return strings.Join(parts, "_"), true
		}
	default:
		if value, ok := s.lookUp(file, expr); ok {
			return s.textWithin(value.file, value.value, depth-1)
		}
	}
	return "", false
}

// lookUp returns the declaration of a package-level constant or variable.
func (s *Source) lookUp(file *File, expr ast.Expr) (constant, bool) {
	key := ""
	switch e := expr.(type) {
	case *ast.Ident:
		key = file.Package + "." + e.Name
	case *ast.SelectorExpr:
		if local, ok := e.X.(*ast.Ident); ok {
			key = s.importPath(file, local.Name) + "." + e.Sel.Name
		}
	}
	value, ok := s.constants[key]
	return value, ok
}

func isTypeName(expr ast.Expr) bool {
	switch e := expr.(type) {
	case *ast.Ident:
		return e.Name == "string"
	case *ast.SelectorExpr:
		return e.Sel.Name == "Feature" || e.Sel.Name == "StabilityLevel"
	}
	return false
}

// calledName returns the last name of the called function.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// lastName returns the last name of a possibly qualified name.
func lastName(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return lastName(e.X)
	case *ast.IndexExpr:
		return lastName(e.X)
	case *ast.IndexListExpr:
		return lastName(e.X)
	}
	return ""
}
