"""Says in two lines how a run ended: report.py RUN_DIRECTORY"""
import json
import pathlib
import sys


def main():
    run = pathlib.Path(sys.argv[1])
    report = json.loads((run / "report.json").read_text())
    evaluation = report.get("eval") or {}
    if evaluation.get("accuracy") is not None:
        print(f"test accuracy: {100 * evaluation['accuracy']:.2f} %")
    if evaluation.get("rmse") is not None:
        print(f"test rmse: {evaluation['rmse']:.4f}")
    print(f"the run: {run}")


if __name__ == "__main__":
    main()
