package inspect

import (
	"runtime/debug"
	"testing"
)

func TestTheVersionIsThatOfTheModule(t *testing.T) {
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "(unknown)"},
		{debug.BuildInfo{Main: debug.Module{Path: tools}}, "(devel)"},
		{debug.BuildInfo{
			Main: debug.Module{Path: "example.com/shop"}, Deps: []*debug.Module{{Path: module, Version: "v1.2.4"}},
		}, "v1.2.4"},
		{debug.BuildInfo{Main: debug.Module{Path: tools, Version: "v1.2.3"}}, "v1.2.3"},
		{debug.BuildInfo{
			Main: debug.Module{Path: tools, Version: "(devel)"},
			Settings: []debug.BuildSetting{
				{Key: "vcs", Value: "git"},
				{Key: "vcs.revision", Value: "abc"},
				{Key: "vcs.modified", Value: "false"},
			},
		}, "(devel), revision abc"},
		{debug.BuildInfo{Main: debug.Module{Path: tools}, Settings: []debug.BuildSetting{
			{Key: "vcs.modified", Value: "true"},
			{Key: "vcs.revision", Value: "abc"},
		}}, "(devel), revision abc, modified"},
	} {
		if got := versionIn(&c.info); got != c.want {
			t.Errorf("%+v: %q, want %q", c.info, got, c.want)
		}
	}
}
