package bloomkv

const childEnv = "BLOOMKV_TEST_CHILD"

func childMain(string) int { return 2 }
