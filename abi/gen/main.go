// Command gen writes the policy ABI's layouts from its description.
//
// It is run from the repository root as "go run ./abi/gen"; a test of this package regenerates in memory and
// compares, so that a description changed without its outputs fails.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := "abi"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(dir); err != nil {
		fmt.Fprintln(os.Stderr, "abi/gen:", err)
		os.Exit(1)
	}
}

// run reads dir/abi.json and writes every output below dir.
func run(dir string) error {
	outs, err := generate(filepath.Join(dir, "abi.json"))
	if err != nil {
		return err
	}
	for name, text := range outs {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// generate returns the outputs by their path relative to the description's folder.
func generate(descPath string) (map[string][]byte, error) {
	d, err := load(descPath)
	if err != nil {
		return nil, err
	}
	layout, err := goLayout(d)
	if err != nil {
		return nil, fmt.Errorf("layout: %w", err)
	}
	views, err := goViews(d)
	if err != nil {
		return nil, fmt.Errorf("views: %w", err)
	}
	outs := map[string][]byte{
		"layout_gen.go":       layout,
		"guest/layout_gen.go": views,
		"README.md":           readme(d),
	}
	for path, name := range sdks() {
		if outs[path], err = d.render(name); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return outs, nil
}
