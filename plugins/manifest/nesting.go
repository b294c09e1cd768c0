package manifest

// maxNesting is how deep tables and lists of an author's file nest, and how many parts a dotted key has. A manifest needs 3;
// the decoder's time grows faster than the nesting.
const maxNesting = 8

// tooDeep is the first line of an author's file, from 1, on which brackets nest deeper than maxNesting or a dotted key has
// more parts; 0 where there is none. Whether the file is TOML is the decoder's to say: it stops where strings and brackets
// are not what they seem here.
func tooDeep(file string) int {
	line, depth, parts := 1, 0, 1
	for i := 0; i < len(file); i++ {
		switch c := file[i]; c {
		case '\n':
			line, parts = line+1, 1
		case '#':
			for i+1 < len(file) && file[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			end := stringEnd(file, i)
			for _, b := range []byte(file[i:end]) {
				if b == '\n' {
					line++
				}
			}
			i = end - 1
		case '.':
			if parts++; parts > maxNesting {
				return line
			}
		case '=', ',':
			parts = 1
		case '[', '{':
			parts = 1
			if depth++; depth > maxNesting {
				return line
			}
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return 0
}

// stringEnd is the index behind the string that begins at i: behind its closing quotes, or before the line break that a
// string of one line cannot hold, or the end of the file.
func stringEnd(file string, i int) int {
	q := file[i]
	if i+2 < len(file) && file[i+1] == q && file[i+2] == q {
		for i += 3; i < len(file); i++ {
			switch {
			case file[i] == '\\' && q == '"':
				i++
			case file[i] == q && i+2 < len(file) && file[i+1] == q && file[i+2] == q:
				i += 3
				for n := 0; n < 2 && i < len(file) && file[i] == q; n++ {
					i++ // up to two quotes belong to the text before the closing three
				}
				return i
			}
		}
		return len(file)
	}
	for i++; i < len(file) && file[i] != '\n'; i++ {
		switch {
		case file[i] == q:
			return i + 1
		case file[i] == '\\' && q == '"' && i+1 < len(file) && file[i+1] != '\n':
			i++
		}
	}
	return i
}
