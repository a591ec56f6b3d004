package bloomkv
