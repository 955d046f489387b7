"""Jobs of `skyrocket.pipelines`: what they read, what they make, and processes to be killed."""
