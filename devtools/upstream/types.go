package main

import (
	"go/ast"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Type is a struct of the API.
type Type struct {
	// Tags are the markers in the comment of the type.
	Tags   []string `json:"tags"`
	Fields []Field  `json:"fields"`
}

// Field is a field of a struct of the API.
type Field struct {
	Name string `json:"name"`
	// JSON is the name in JSON; an inlined field has none.
	JSON string `json:"json"`
	// Protobuf is the number and the name in protobuf, such as "2 selector"; empty if there is none.
	Protobuf string `json:"protobuf"`
	// Type is the Go type.
	Type string `json:"type"`
	// Tags are the markers in the comment, and the patch strategy.
	Tags []string `json:"tags"`
}

// Packages with versioned types, outside k8s.io/api.
var versioned = regexp.MustCompile(`/apis?/.*v[0-9]+((alpha|beta)[0-9]+)?$`)

// addTypes records the structs with JSON fields of packages with versioned types.
func (inventory *Inventory) addTypes(source *Source, file *File) {
	inApi := strings.HasPrefix(file.Package, "k8s.io/api/")
	staging := !strings.HasPrefix(file.Package, kubernetes+"/")
	if !inApi && !(staging && versioned.MatchString(file.Package)) {
		return
	}
	comments := commentsByEnd(source.set, file.Syntax)
	for _, decl := range file.Syntax.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			declared := spec.(*ast.TypeSpec)
			first := declared.Pos()
			if !general.Lparen.IsValid() {
				first = general.Pos()
			}
			entry := Type{Tags: comments.typeTags(source.set, first), Fields: []Field{}}
			body, ok := declared.Type.(*ast.StructType)
			if ok {
				entry.Fields = fields(source, body)
			}
			if len(entry.Fields) == 0 && (ok || len(entry.Tags) == 0) {
				continue
			}
			inventory.Types[label(file.Package)+"#"+declared.Name.Name] = entry
		}
	}
}

// fields returns the fields with a JSON tag.
func fields(source *Source, body *ast.StructType) []Field {
	found := []Field{}
	for _, field := range body.Fields.List {
		if field.Tag == nil {
			continue
		}
		raw, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			continue
		}
		tag := reflect.StructTag(raw)
		json, ok := tag.Lookup("json")
		if !ok {
			continue
		}
		entry := Field{Type: print(source.set, field.Type), Tags: tags(field.Doc)}
		entry.JSON, _, _ = strings.Cut(json, ",")
		if protobuf := strings.Split(tag.Get("protobuf"), ","); len(protobuf) > 1 {
			entry.Protobuf = protobuf[1]
			for _, part := range protobuf {
				if name, ok := strings.CutPrefix(part, "name="); ok {
					entry.Protobuf += " " + name
				}
			}
		}
		for _, key := range []string{"patchStrategy", "patchMergeKey"} {
			if value := tag.Get(key); value != "" {
				entry.Tags = append(entry.Tags, key+"="+value)
			}
		}
		names := field.Names
		if len(names) == 0 {
			names = []*ast.Ident{{Name: lastName(field.Type)}}
		}
		for _, name := range names {
			entry.Name = name.Name
			found = append(found, entry)
		}
	}
	return found
}

// comments maps the last line of a comment to it.
type comments map[int]*ast.CommentGroup

func commentsByEnd(set *token.FileSet, file *ast.File) comments {
	found := comments{}
	for _, group := range file.Comments {
		found[set.Position(group.End()).Line] = group
	}
	return found
}

// typeTags returns the markers above a type: those of its comment and those of the comment one blank line further up,
// which Kubernetes' generators read too.
func (c comments) typeTags(set *token.FileSet, declaration token.Pos) []string {
	line := set.Position(declaration).Line
	closest, second := c[line-1], c[line-2]
	if closest != nil {
		second = c[set.Position(closest.Pos()).Line-2]
	}
	return append(tags(second), tags(closest)...)
}

// tags returns the markers in comments.
func tags(groups ...*ast.CommentGroup) []string {
	tags := []string{}
	for _, group := range groups {
		if group == nil {
			continue
		}
		for _, comment := range group.List {
			for _, text := range strings.Split(comment.Text, "\n") {
				text = strings.TrimSpace(strings.TrimLeft(text, "/* \t"))
				if isTag(text) {
					tags = append(tags, text)
				}
			}
		}
	}
	return tags
}

// Markers that decide how the server treats a field. Others belong to code generators.
var tagNames = []string{
	"+k8s:", "+listType", "+listMapKey", "+mapType", "+structType", "+default", "+featureGate", "+enum", "+optional",
	"+required", "+nullable", "+union", "+genclient:nonNamespaced", "+genclient:noStatus", "+genclient:method",
}

// Generators with markers of their own prefix, which say nothing of validation.
var generators = []string{
	"+k8s:deepcopy-gen", "+k8s:openapi-gen", "+k8s:protobuf-gen", "+k8s:prerelease-lifecycle-gen", "+k8s:conversion-gen",
	"+k8s:defaulter-gen", "+k8s:validation-gen", "+k8s:openapi-model-package", "+k8s:applyconfiguration-gen",
}

func isTag(text string) bool {
	for _, name := range generators {
		if strings.HasPrefix(text, name) {
			return false
		}
	}
	for _, name := range tagNames {
		if strings.HasPrefix(text, name) {
			return true
		}
	}
	return false
}
