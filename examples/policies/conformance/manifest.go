package conformance

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"sluice/abi"
	"sluice/plugins/manifest"
)

// Settings compares the schema in an author's file with what the policy itself takes: for each integer key the bounds, the
// values next to them and the default, and a key that neither knows. configure is the policy's, on a fresh one each time.
func Settings(path string, configure func(config []byte) int32) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	m, err := manifest.ParseTOML(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(m.Config) == 0 {
		return fmt.Errorf("%s: it names no key, so nothing is compared", path)
	}
	tries := []string{"", "{}", `{"xyzzy":1}`}
	for _, name := range slices.Sorted(maps.Keys(m.Config)) {
		k := m.Config[name]
		for _, bound := range []any{k.Min, k.Max, k.Default} {
			n, ok := bound.(int64)
			if !ok {
				return fmt.Errorf("%s: config.%s: want an integer with min, max and default", path, name)
			}
			for _, v := range []int64{n - 1, n, n + 1} {
				tries = append(tries, fmt.Sprintf("{%q:%d}", name, v))
			}
		}
		tries = append(tries, fmt.Sprintf("{%q:true}", name))
	}
	for _, config := range tries {
		said := m.CheckConfig([]byte(config))
		if status := configure([]byte(config)); (status == int32(abi.StatusOK)) != (said == nil) {
			return fmt.Errorf("%s: %s: the policy's status is %d, the schema says %v", path, config, status, said)
		}
	}
	return nil
}
