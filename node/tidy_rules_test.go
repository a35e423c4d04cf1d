package main_test

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	functionLinesMax = 70
	fileLinesMax     = 620
	columnsMax       = 140 // a tab counts tabColumns
	tabColumns       = 4
	waySteps         = 10
	overviewWordsMax = 4000
)

// longFunctions finds functions of more than functionLinesMax lines. In tests
// the rows of a table do not count: a longer table is a better one.
func longFunctions(tr *tree) []finding {
	var all []finding
	for _, s := range tr.sources {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.generated {
				continue
			}
			lines := tr.lines(f)
			if s.test {
				lines -= tr.tableLines(f)
			}
			if lines > functionLinesMax {
				all = append(all, finding{s.path, tr.line(f.Pos()), f.Name.Name,
					fmt.Sprintf("%s has %d lines, at most %d", f.Name.Name, lines, functionLinesMax)})
			}
		}
	}
	return all
}

// lines returns how many lines n stands on.
func (tr *tree) lines(n ast.Node) int { return tr.line(n.End()) - tr.line(n.Pos()) + 1 }

// tableLines returns how many lines of n are inside of composite literals.
func (tr *tree) tableLines(n ast.Node) (lines int) {
	ast.Inspect(n, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if ok {
			lines += tr.lines(literal) - 1
		}
		return !ok
	})
	return lines
}

func longFiles(tr *tree) []finding {
	var all []finding
	for _, s := range tr.sources {
		if n := strings.Count(s.text, "\n"); n > fileLinesMax && !s.generated {
			all = append(all, finding{s.path, n, "", fmt.Sprintf("%d lines, at most %d: split it by noun", n, fileLinesMax)})
		}
	}
	return all
}

// wideLines finds lines of more than columnsMax columns. The text of raw strings
// does not count, since it cannot be broken; in tests that of no string does:
// bodies, prompts and wanted messages read best in one piece.
func wideLines(tr *tree) []finding {
	var all []finding
	for _, s := range tr.sources {
		if s.generated {
			continue
		}
		for i, line := range strings.Split(withoutStrings(s.text, s.test), "\n") {
			if n := columns(line); n > columnsMax {
				all = append(all, finding{s.path, i + 1, "", fmt.Sprintf("%d columns, at most %d", n, columnsMax)})
			}
		}
	}
	return all
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// withoutStrings takes the raw string literals out of a Go file, or all of them,
// and keeps its lines.
func withoutStrings(text string, all bool) string {
	var out strings.Builder
	at := 0
	file := token.NewFileSet().AddFile("", -1, len(text))
	var sc scanner.Scanner
	sc.Init(file, []byte(text), nil, 0)
	for {
		pos, kind, literal := sc.Scan()
		if kind == token.EOF {
			return out.String() + text[at:]
		}
		if kind == token.STRING && (all || literal[0] == '`') {
			begin := file.Offset(pos)
			out.WriteString(text[at:begin])
			out.WriteString(strings.Repeat("\n", strings.Count(literal, "\n")))
			at = begin + len(literal)
		}
	}
}

// limitNames finds limits that end in Most or Least: all others end in Max and
// Min. A variable that is just called most, such as a maximum that was found, is none.
func limitNames(tr *tree) []finding {
	return tr.names(func(s *source, name string) string {
		w := words(name)
		if sentence(s, name) || len(w) == 1 && !ast.IsExported(name) || len(w) == 2 && w[0] == "at" {
			return ""
		}
		switch w[len(w)-1] {
		case "most":
			return fmt.Sprintf("%s: a limit's name ends in Max", name)
		case "least":
			return fmt.Sprintf("%s: a limit's name ends in Min", name)
		}
		return ""
	})
}

// sentence says whether a name is that of a test, which is a sentence: its words
// may be verbs.
func sentence(s *source, name string) bool {
	return s.test && slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// foreignWords finds words of the glossary that are used for something else, and
// words that the glossary has another one for (vocabulary).
func foreignWords(tr *tree) []finding {
	var used []finding
	seen := map[string]bool{}
	for _, s := range tr.sources {
		for _, w := range vocabulary {
			if !seen[s.path+w.word] && w.rules(s.path) && slices.ContainsFunc(strings.Split(s.path, "/"), w.in) {
				seen[s.path+w.word] = true
				used = append(used, finding{s.path, 1, path.Base(s.path), fmt.Sprintf("the name of the file says %q: %s", w.word, w.instead)})
			}
		}
	}
	used = append(used, coinedWords(tr)...)
	return append(used, tr.names(func(s *source, name string) string {
		for _, w := range vocabulary {
			if w.rules(s.path) && w.in(name) && !(w.verb && sentence(s, name)) {
				return fmt.Sprintf("%s says %q: %s", name, w.word, w.instead)
			}
		}
		return ""
	})...)
}

// coinedWords finds the terms in comments that nobody uses as ordinary English.
func coinedWords(tr *tree) []finding {
	var all []finding
	for _, s := range tr.sources {
		for _, group := range s.file.Comments {
			for i, line := range strings.Split(group.Text(), "\n") {
				for _, w := range vocabulary {
					if w.coined && w.rules(s.path) && w.in(line) {
						all = append(all, finding{s.path, tr.line(group.Pos()) + i, w.word, fmt.Sprintf("a comment says %q: %s", w.word, w.instead)})
					}
				}
			}
		}
	}
	return all
}

// mixedImports finds imports of one paragraph of which some are of the standard library, some the project's and some
// other people's.
func mixedImports(tr *tree) (all []finding) {
	kind := func(path string) int {
		first, _, _ := strings.Cut(path, "/")
		switch {
		case first == "corenode":
			return 2
		case strings.Contains(first, "."):
			return 1
		}
		return 0
	}
	for _, s := range tr.sources {
		for i, spec := range s.file.Imports {
			if i == 0 || tr.line(spec.Pos()) != tr.line(s.file.Imports[i-1].End())+1 {
				continue
			}
			before, after := strings.Trim(s.file.Imports[i-1].Path.Value, `"`), strings.Trim(spec.Path.Value, `"`)
			if kind(before) != kind(after) {
				all = append(all, finding{s.path, tr.line(spec.Pos()), "", fmt.Sprintf("%q stands behind %q without a line between", after, before)})
			}
		}
	}
	return all
}

// portableSyncs finds what is opened for reading and synced, as a folder is, in files that Windows compiles: it refuses that.
func portableSyncs(tr *tree) (all []finding) {
	method := func(n ast.Node) (of, name string) {
		if call, ok := n.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					return x.Name, s.Sel.Name
				}
			}
		}
		return "", ""
	}
	for _, s := range tr.sources {
		if s.test || tagsOf(s.file)["unix"] || strings.HasSuffix(s.path, "_linux.go") {
			continue
		}
		for _, d := range s.file.Decls {
			opened := map[string]bool{}
			ast.Inspect(d, func(n ast.Node) bool {
				if set, ok := n.(*ast.AssignStmt); ok {
					if of, name := method(set.Rhs[0]); of == "os" && name == "Open" {
						opened[fmt.Sprint(set.Lhs[0])] = true
					}
				}
				if of, name := method(n); name == "Sync" && opened[of] {
					all = append(all, finding{s.path, tr.line(n.Pos()), of, of + " is opened for reading and synced: give Windows a file of its own"})
				}
				return true
			})
		}
	}
	return all
}

// britishSpellings finds them in comments, names and the documents.
func britishSpellings(tr *tree) []finding {
	all := tr.names(func(s *source, name string) string {
		for _, w := range words(name) {
			if american, ok := british(w); ok {
				return fmt.Sprintf("%s: American spelling has %q", name, american)
			}
		}
		return ""
	})
	for _, s := range tr.sources {
		for _, group := range s.file.Comments {
			all = append(all, spelledIn(s.path, tr.line(group.Pos()), group.Text())...)
		}
	}
	for name, text := range tr.texts {
		if strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, "engine/embedded/") { // the trainer writes those
			all = append(all, spelledIn(name, 1, codeSpan.ReplaceAllString(text, ""))...)
		}
	}
	return all
}

var codeSpan = regexp.MustCompile("`[^`\n]*`")

var anyWord = regexp.MustCompile(`[A-Za-z]+`)

// spelledIn finds British spellings in a text that begins at line first.
func spelledIn(path string, first int, text string) []finding {
	var all []finding
	for i, line := range strings.Split(text, "\n") {
		for _, word := range anyWord.FindAllString(line, -1) {
			for _, w := range words(word) {
				if american, ok := british(w); ok {
					all = append(all, finding{path, first + i, w, fmt.Sprintf("%q: American spelling has %q", w, american)})
				}
			}
		}
	}
	return all
}

// names asks about each name that the sources declare. Generated ones are nobody's words.
func (tr *tree) names(ask func(s *source, name string) string) []finding {
	var all []finding
	for _, s := range tr.sources {
		if s.generated {
			continue
		}
		for _, id := range declared(s.file) {
			if id.Name == "_" {
				continue
			}
			if text := ask(s, id.Name); text != "" {
				all = append(all, finding{s.path, tr.line(id.Pos()), id.Name, text})
			}
		}
	}
	return all
}

// declared returns every identifier that a file gives a meaning to.
func declared(file *ast.File) []*ast.Ident {
	all := []*ast.Ident{file.Name}
	define := func(expressions ...ast.Expr) {
		for _, e := range expressions {
			if id, ok := e.(*ast.Ident); ok {
				all = append(all, id)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			all = append(all, n.Name)
		case *ast.TypeSpec:
			all = append(all, n.Name)
		case *ast.ValueSpec:
			all = append(all, n.Names...)
		case *ast.Field: // of a struct, an interface, parameters, results
			all = append(all, n.Names...)
		case *ast.ImportSpec:
			if n.Name != nil {
				all = append(all, n.Name)
			}
		case *ast.LabeledStmt:
			all = append(all, n.Label)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				define(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				define(n.Key, n.Value)
			}
		}
		return true
	})
	return all
}

// unknownTags finds build tags that comments, documents and the Makefile name
// and that no //go:build line asks for.
func unknownTags(tr *tree) []finding {
	known := map[string]bool{"race": true} // set by go test -race
	for _, s := range tr.sources {
		for tag := range tagsOf(s.file) {
			known[tag] = true
		}
	}
	var all []finding
	look := func(path string, first int, text string) {
		for i, line := range strings.Split(text, "\n") {
			for _, tag := range tagsNamed(line) {
				if !known[tag] {
					all = append(all, finding{path, first + i, tag, fmt.Sprintf("no //go:build line asks for the tag %s", tag)})
				}
			}
		}
	}
	for _, s := range tr.sources {
		for _, group := range s.file.Comments {
			look(s.path, tr.line(group.Pos()), group.Text())
		}
	}
	for name, text := range tr.texts {
		look(name, 1, text)
	}
	return all
}

// tagsOf returns the tags in a file's //go:build line.
func tagsOf(file *ast.File) map[string]bool {
	tags := map[string]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			if x, err := constraint.Parse(c.Text); err == nil {
				collectTags(x, tags)
			}
		}
	}
	return tags
}

func collectTags(x constraint.Expr, tags map[string]bool) {
	switch x := x.(type) {
	case *constraint.TagExpr:
		tags[x.Tag] = true
	case *constraint.NotExpr:
		collectTags(x.X, tags)
	case *constraint.AndExpr:
		collectTags(x.X, tags)
		collectTags(x.Y, tags)
	case *constraint.OrExpr:
		collectTags(x.X, tags)
		collectTags(x.Y, tags)
	}
}

var tagNamed = regexp.MustCompile("-tags[ =]`?([a-z][a-z0-9_,]*)|[Bb]uild tag `?([a-z][a-z0-9_]*)")

// tagsNamed returns the tags that a line of text names.
func tagsNamed(line string) []string {
	var tags []string
	for _, m := range tagNamed.FindAllStringSubmatch(line, -1) {
		tags = append(tags, strings.Split(m[1]+m[2], ",")...)
	}
	return tags
}

// undocumented finds exported names at the top level, and methods of exported
// types, without a doc comment. A comment on a group speaks for all of it.
func undocumented(tr *tree) []finding {
	var all []finding
	for _, s := range tr.sources {
		if s.test || s.generated {
			continue
		}
		for _, d := range s.file.Decls {
			for _, id := range bare(d) {
				if id.IsExported() {
					all = append(all, finding{s.path, tr.line(id.Pos()), id.Name, fmt.Sprintf("%s has no doc comment", id.Name)})
				}
			}
		}
	}
	return all
}

// bare returns the names that d declares without a word about them.
func bare(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil
		}
		var all []*ast.Ident
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Doc == nil && spec.Comment == nil {
					all = append(all, spec.Name)
				}
			case *ast.ValueSpec:
				if spec.Doc == nil && spec.Comment == nil {
					all = append(all, spec.Names...)
				}
			}
		}
		return all
	}
	return nil
}

// receiver returns the name of a receiver's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

var wayStep = regexp.MustCompile("(?ms)^ *([0-9]+)\\. .*?\\[`[^`\n]+`\\]\\(([^)\n]+)\\)$")

// requestsWay checks the section of the overview that shows a request's way: ten
// steps that end with the name of one file each, and the files exist.
func requestsWay(tr *tree) []finding {
	_, section, ok := strings.Cut(tr.texts[overview], "\n## One request, end to end\n")
	if !ok {
		return []finding{{overview, 1, "", `there is no section "One request, end to end"`}}
	}
	section, _, _ = strings.Cut(section, "\n##")
	steps := wayStep.FindAllStringSubmatch(section, -1)
	var all []finding
	if len(steps) != waySteps {
		all = append(all, finding{overview, 1, "", fmt.Sprintf("%d steps that name a file, want %d", len(steps), waySteps)})
	}
	for _, step := range steps {
		if !strings.HasSuffix(step[2], ".go") || !tr.has(path.Join(path.Dir(overview), step[2])) {
			all = append(all, finding{overview, 1, step[2], fmt.Sprintf("step %s names %s: there is no such file", step[1], step[2])})
		}
	}
	return all
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

// deadLinks finds links of documents to files that are not there.
func deadLinks(tr *tree) []finding {
	var all []finding
	for name, text := range tr.texts {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if to := path.Join(path.Dir(name), m[1]); !strings.Contains(m[1], ":") && !tr.has(to) {
					all = append(all, finding{name, i + 1, m[1], fmt.Sprintf("links to %s, which is not there", to)})
				}
			}
		}
	}
	return all
}

var namedFile = regexp.MustCompile(`[\w./-]*\w\.go\b`)

// lostFiles finds Go files that documents name and that are not there. A document
// may leave out the folders in front.
func lostFiles(tr *tree) []finding {
	var all []finding
	for name, text := range tr.texts {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			for _, file := range namedFile.FindAllString(line, -1) {
				file = strings.TrimLeft(file, "./")
				if !slices.ContainsFunc(tr.sources, func(s *source) bool { return strings.HasSuffix("/"+s.path, "/"+file) }) {
					all = append(all, finding{name, i + 1, file, fmt.Sprintf("names %s, which is not there", file)})
				}
			}
		}
	}
	return all
}

const overview = "node/ARCHITECTURE.md"

// longOverview keeps the overview one that is read: details go to the folder's DESIGN.md.
func longOverview(tr *tree) []finding {
	if n := len(strings.Fields(tr.texts[overview])); n == 0 || n > overviewWordsMax {
		return []finding{{overview, 1, "", fmt.Sprintf("%d words, at most %d", n, overviewWordsMax)}}
	}
	return nil
}

var required = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)

// unexplainedModules finds modules that go.mod requires directly and that the
// overview's table does not say the reason of.
func unexplainedModules(tr *tree) []finding {
	var all []finding
	for _, m := range required.FindAllStringSubmatch(tr.texts["go.mod"], -1) {
		if !strings.Contains(tr.texts[overview], "| "+m[1]) {
			all = append(all, finding{overview, 1, m[1], fmt.Sprintf("go.mod requires %s, and no table says why", m[1])})
		}
	}
	return all
}
