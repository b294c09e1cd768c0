package config

import "strings"

// leastPrefix is how many letters of a name must be there before it counts as the beginning of another.
const leastPrefix = 3

// Nearest is the candidate that a name most likely meant, ignoring case: the first one that begins with it, else the one
// with the smallest edit distance, the first of equals. close reports whether that is near enough to be offered: a
// beginning of at least three letters that leaves only the last part of a dotted name open, or edits to at most a third of
// the longer name, rounded. A wrong hint is worse than none, and of a name of up to four letters more than one edit leaves
// nothing to recognise; the beginning of a section's name says nothing of a key in it.
func Nearest(name string, candidates []string) (best string, close bool) {
	if len(name) >= leastPrefix {
		for _, c := range candidates {
			if len(c) >= len(name) && strings.EqualFold(c[:len(name)], name) && !strings.Contains(c[len(name):], ".") {
				return c, true
			}
		}
	}
	lowest := -1
	for _, c := range candidates {
		d := distance(strings.ToLower(name), strings.ToLower(c))
		if lowest < 0 || d < lowest {
			best, lowest = c, d
		}
	}
	if lowest < 0 {
		return "", false
	}
	limit := max(1, (max(len(name), len(best))+1)/3)
	return best, lowest <= limit && lowest < max(1, min(len(name), len(best)))
}

// distance counts insertions, deletions, substitutions and swaps of neighbours (optimal string alignment). Names longer
// than any real key are cut: they are nobody's near miss.
func distance(a, b string) int {
	const longest = 128
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	before, previous, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(previous[j]+1, row[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, previous, row = previous, row, before
	}
	return previous[len(b)]
}

// nearestKey names the key that a wrong one most likely meant. The same name in another section comes first, then a near
// miss in its own section, then a near miss of the last part anywhere, then the nearest full name. Of several sections
// with that name, the one most like the section written wins.
func nearestKey(path []string) (name string, close bool) {
	full := strings.Join(path, ".")
	leaf := path[len(path)-1]
	section := strings.Join(path[:len(path)-1], ".")
	var names, leaves, own []string
	byLeaf := map[string][]string{}
	for _, k := range keys() {
		names, leaves = append(names, k.Name), append(leaves, k.Leaf())
		byLeaf[k.Leaf()] = append(byLeaf[k.Leaf()], k.Name)
		if k.Section() == section {
			own = append(own, k.Leaf())
		}
	}
	if same := byLeaf[leaf]; len(same) > 0 {
		name, _ = Nearest(full, same)
		return name, true
	}
	if best, ok := Nearest(leaf, own); ok {
		return section + "." + best, true
	}
	if best, ok := Nearest(leaf, leaves); ok {
		name, _ = Nearest(full, byLeaf[best])
		return name, true
	}
	return Nearest(full, names)
}

// SectionKeys are the keys directly in the section or inline table of that name, in the order of the file; none where name
// is neither.
func SectionKeys(name string) []string {
	var out []string
	for _, k := range keys() {
		if k.Section() == name {
			out = append(out, k.Name)
		}
	}
	return out
}

// nearestTable is the table within a section that a wrong name of one most likely meant: an inline table, or a key that
// holds a table. Only the last part of path may be wrong; close as in Nearest.
func nearestTable(path []string) (name string, close bool) {
	section := strings.Join(path[:len(path)-1], ".")
	var leaves []string
	for _, t := range inlineTables() {
		if leaf, ok := strings.CutPrefix(t.Name, section+"."); ok {
			leaves = append(leaves, leaf)
		}
	}
	for _, k := range keys() {
		if k.Kind == KindTable && k.Section() == section {
			leaves = append(leaves, k.Leaf())
		}
	}
	best, close := Nearest(path[len(path)-1], leaves)
	return section + "." + best, close
}

// suggestion turns a nearest name into the end of a message.
func suggestion(name string, close bool) string {
	if close {
		return "did you mean " + name + "?"
	}
	return "the nearest valid name is " + name
}
