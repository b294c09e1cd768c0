package replay

import "testing"

func TestQuantiles(t *testing.T) {
	upTo := func(n uint64) []uint64 {
		var v []uint64
		for i := n; i > 0; i-- {
			v = append(v, i)
		}
		return v
	}
	for _, c := range []struct {
		name   string
		values []uint64
		want   Quantiles
	}{
		{"none", nil, Quantiles{}},
		{"one", []uint64{7}, Quantiles{7, 7, 7, 7}},
		{"two", []uint64{9, 1}, Quantiles{1, 9, 9, 9}},
		{"a hundred", upTo(100), Quantiles{50, 95, 99, 100}},
		{"a hundred and one", upTo(101), Quantiles{51, 96, 100, 101}},
	} {
		if got := quantilesOf(c.values); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
