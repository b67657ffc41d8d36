"""Shrinks and renames the app of the Kotlin quickstart with ProGuard, and runs it again.

The rules are those that each jar contains for R8, such as `consumer-rules.pro`. R8 itself reads the same language, and
is not on Maven Central. ProGuard's optimiser is off: it breaks kotlinx.coroutines on a JVM. The result is
target/packages/shrunk.jar. The app must print what it printed before.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import quickstart

ROOT = Path(__file__).resolve().parents[2]
SHRUNK = ROOT / "target/packages/shrunk.jar"
DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:build-classpath"
PROGUARD = """<project>
  <modelVersion>4.0.0</modelVersion><groupId>shrink</groupId><artifactId>shrink</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>com.guardsquare</groupId><artifactId>proguard-base</artifactId><version>7.10.0</version>
    </dependency>
  </dependencies>
</project>"""
# An app's own rules. OkHttp's jar for the JVM has none, and names classes of other platforms.
RULES = """
-keep class ChatKt { public static void main(java.lang.String[]); }
-dontwarn okhttp3.internal.**
-dontwarn kotlinx.coroutines.debug.**
-dontoptimize
-dontnote **
"""
LEFT_OUT = "(!META-INF/MANIFEST.MF,!META-INF/LICENSE,!META-INF/versions/**,!**/module-info.class)"


def main():
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as repository:
        folder, environment = Path(name), quickstart.environment(repository)
        printed = quickstart.follow("clients/kotlin/README.md", folder, environment)
        jars = classpath(folder, environment)
        before = sum(Path(jar).stat().st_size for jar in jars)
        (folder / "tool").mkdir()
        (folder / "tool/pom.xml").write_text(PROGUARD)
        proguard = os.pathsep.join(classpath(folder / "tool", environment))
        SHRUNK.unlink(missing_ok=True)
        rules = folder / "rules.pro"
        rules.write_text("\n".join([*inputs(folder / "target/classes", jars), *packed_rules(jars), RULES]))
        subprocess.run(["java", "-cp", proguard, "proguard.ProGuard", f"@{rules}"], check=True)
        with quickstart.served(folder):
            java = ["java", "-cp", SHRUNK, "ChatKt"]
            run = subprocess.run(java, capture_output=True, text=True, timeout=120, check=False)
    if run.returncode or run.stdout.strip() != printed.strip():
        sys.exit(f"the shrunk app fails:\n{run.stdout}{run.stderr}")
    print(f"The shrunk app prints the same. Its jar has {SHRUNK.stat().st_size:,} bytes, and the jars had {before:,}.")


def classpath(folder, environment):
    """Returns the jars of the POM in a folder."""
    file = folder / "classpath"
    subprocess.run(
        ["mvn", "-q", "-B", DEPENDENCIES, f"-Dmdep.outputFile={file}"], cwd=folder, env=environment, check=True
    )
    return file.read_text().split(os.pathsep)


def inputs(classes, jars):
    yield f"-injars {classes}"
    yield from (f"-injars {jar}{LEFT_OUT}" for jar in jars)
    yield f"-outjars {SHRUNK}"
    yield "-libraryjars <java.home>/jmods(!**.jar;!module-info.class)"


def packed_rules(jars):
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            names = [name for name in archive.namelist() if re.fullmatch(r"META-INF/proguard/.+\.pro", name)]
            yield from (archive.read(name).decode() for name in names)


if __name__ == "__main__":
    main()
